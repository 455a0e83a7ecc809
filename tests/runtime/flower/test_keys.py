"""Keys: certificates for the named hosts, private files, nothing overwritten, mistakes told."""

from __future__ import annotations

import ipaddress
import stat

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from flwr.supercore.primitives.asymmetric import public_key_to_bytes

from hanse.errors import RecipeError
from hanse.runtime.flower.keys import KeyFolder, make_client_key, make_server_keys


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = KeyFolder(tmp_path_factory.mktemp("keys") / "k")
    make_server_keys(folder, ["fed.example.org", "192.0.2.7"])
    make_client_key(folder, "north")
    return folder


def test_the_certificate_holds_for_the_hosts_and_this_machine(folder):
    root = x509.load_pem_x509_certificate(folder.authority.read_bytes())
    leaf = x509.load_pem_x509_certificate(folder.certificate[0].read_bytes())
    names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["fed.example.org", "localhost"]
    assert names.get_values_for_type(x509.IPAddress) == [
        ipaddress.ip_address("192.0.2.7"),
        ipaddress.ip_address("127.0.0.1"),
    ]
    leaf.verify_directly_issued_by(root)
    assert (leaf.not_valid_after_utc - leaf.not_valid_before_utc).days == 825
    constraints = [c.extensions.get_extension_for_class(x509.BasicConstraints).value.ca for c in (root, leaf)]
    assert constraints == [True, False]


def test_private_keys_are_for_their_owner_only(folder):
    private = list(folder.path.rglob("*.key"))
    assert sorted(path.name for path in private) == ["ca.key", "north.key", "server.key"]
    assert {stat.S_IMODE(path.stat().st_mode) for path in private} == {0o600}
    assert b"PRIVATE" not in folder.public("north").read_bytes()


def test_private_keys_that_others_can_read_are_told(folder):
    key = folder.private("north")
    assert folder.exposed(key, *folder.certificate[1:], folder.path / "absent.key") == []
    key.chmod(0o640)
    (warning,) = folder.exposed(key)
    key.chmod(0o600)
    assert f"chmod 600 {key}" in warning


def test_a_clients_two_halves_belong_together(folder):
    key = folder.client_key("north")
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    folder.public("north").write_bytes(folder.public("north").read_bytes().replace(b"\n", b"\r\n"))
    assert folder.client_public("north") == public_key_to_bytes(key.public_key())


@pytest.mark.parametrize(
    "make", [lambda f: make_server_keys(f, ["a"]), lambda f: make_client_key(f, "north")]
)
def test_nothing_is_overwritten(folder, make):
    before = {path: path.read_bytes() for path in folder.path.rglob("*.*") if path.is_file()}
    with pytest.raises(RecipeError, match="exists already"):
        make(folder)
    assert {path: path.read_bytes() for path in before} == before


@pytest.mark.parametrize(
    ("act", "field", "why"),
    [
        (lambda f: make_client_key(f, "../north"), "--client", "no client's name"),
        (lambda f: make_server_keys(KeyFolder(f.path / "new"), ["a b"]), "--host", "neither a host's name"),
        (lambda f: f.client_key("south"), "--keys", "cannot be read"),
        (lambda f: f.client_public("south"), "--keys", "cannot be read"),
        (lambda f: (f.private("bad").write_text("x"), f.client_key("bad")), "--keys", "no private key"),
        (lambda f: (f.public("bad").write_text("x"), f.client_public("bad")), "--keys", "no public key"),
    ],
)
def test_mistakes_are_told(folder, act, field, why):
    with pytest.raises(RecipeError, match=why) as caught:
        act(folder)
    assert caught.value.field == field
    assert not (folder.path / "new").exists()
