"""Keys of a consortium: an authority and a server certificate, and for each client a key of its own.

A client's private key is made where it stays; its public half is a file that the server gets. Files:
`ca.pem`, `ca.key`, `server.pem`, `server.key`, `clients/NAME.pem` (public), `NAME.key`.
"""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from hanse.errors import RecipeError

DAYS = 825
"""How long certificates hold, as long as common tools accept."""
NAME = re.compile(r"[a-z0-9][a-z0-9.-]{0,62}")
_ALWAYS = ("localhost", "127.0.0.1")


@dataclass(frozen=True)
class KeyFolder:
    """Paths of keys, and what is in them."""

    path: Path

    @property
    def authority(self) -> Path:
        return self.path / "ca.pem"

    @property
    def certificate(self) -> tuple[Path, Path]:
        """The server's certificate, and its private key."""
        return self.path / "server.pem", self.path / "server.key"

    def authority_pem(self) -> bytes:
        """Raises RecipeError for a missing or unusable file."""
        data = self.read(self.authority, "Copy the server's ca.pem there.")
        try:
            x509.load_pem_x509_certificates(data)
        except ValueError as error:
            problem = f"{self.authority} is no certificate."
            raise RecipeError("--keys", problem, "Copy the server's ca.pem there again.") from error
        return data

    def private(self, client: str) -> Path:
        return self.path / f"{client}.key"

    def public(self, client: str) -> Path:
        return self.path / "clients" / f"{client}.pem"

    def read(self, path: Path, remedy: str) -> bytes:
        """Raises RecipeError where a file is missing."""
        try:
            return path.read_bytes()
        except OSError as error:
            raise RecipeError("--keys", f"{path} cannot be read: {error.strerror}.", remedy) from error

    def exposed(self, *private: Path) -> list[str]:
        """What to tell the owner of private keys that others on this machine can read."""
        return [
            f"warning: {path} can be read by others on this machine; mend it with: chmod 600 {path}"
            for path in private
            if path.exists() and path.stat().st_mode & 0o077
        ]

    def client_key(self, client: str) -> ec.EllipticCurvePrivateKey:
        """Raises RecipeError for a missing or unusable file."""
        path = self.private(client)
        data = self.read(path, f"Make it with: hanse keys {self.path} --client {client}")
        try:
            key = serialization.load_pem_private_key(data, password=None)
        except (ValueError, TypeError) as error:
            raise RecipeError("--keys", f"{path} is no private key.", "Restore it from a copy.") from error
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise RecipeError("--keys", f"{path} is not an elliptic-curve key.", "Make one with hanse keys.")
        return key

    def client_public(self, client: str) -> bytes:
        """In PEM. Raises RecipeError for a missing or unusable file."""
        path = self.public(client)
        data = self.read(path, f"Ask {client} for that file: hanse keys writes it there.")
        try:
            key = serialization.load_pem_public_key(data)
        except ValueError as error:
            raise RecipeError("--keys", f"{path} is no public key.", f"Ask {client} for it again.") from error
        return _public_pem(key)  # as Flower writes it, whatever line ends the file has


def make_server_keys(folder: KeyFolder, hosts: Sequence[str], days: int = DAYS) -> list[Path]:
    """An authority and the server's certificate for `hosts` (names or addresses) and this machine itself.

    Raises RecipeError where a file exists already, and for a host that is none.
    """
    paths = [folder.authority, folder.path / "ca.key", *folder.certificate]
    _refuse_existing(paths)
    names = [_host(host) for host in dict.fromkeys([*hosts, *_ALWAYS])]
    authority, own = ec.generate_private_key(ec.SECP384R1()), ec.generate_private_key(ec.SECP384R1())
    root = _certificate("hanse authority", authority, None, days, [])
    leaf = _certificate(hosts[0][:64], own, (root, authority), days, names)
    folder.path.mkdir(parents=True, exist_ok=True)
    _write(paths[0], root.public_bytes(serialization.Encoding.PEM), private=False)
    _write(paths[1], _private_pem(authority), private=True)
    _write(paths[2], leaf.public_bytes(serialization.Encoding.PEM), private=False)
    _write(paths[3], _private_pem(own), private=True)
    return paths


def make_client_key(folder: KeyFolder, client: str) -> list[Path]:
    """A client's private key, and its public half for the server. Raises RecipeError where one exists."""
    if not NAME.fullmatch(client):
        problem = f"{client!r} is no client's name."
        raise RecipeError("--client", problem, "Use lower-case letters, digits, dots and hyphens.")
    paths = [folder.private(client), folder.public(client)]
    _refuse_existing(paths)
    key = ec.generate_private_key(ec.SECP384R1())
    paths[1].parent.mkdir(parents=True, exist_ok=True)
    _write(paths[0], _private_pem(key), private=True)
    _write(paths[1], _public_pem(key.public_key()), private=False)
    return paths


def _certificate(
    name: str,
    key: ec.EllipticCurvePrivateKey,
    issuer: tuple[x509.Certificate, ec.EllipticCurvePrivateKey] | None,
    days: int,
    hosts: Sequence[x509.GeneralName],
) -> x509.Certificate:
    """Signed by `issuer`, or an authority's by itself."""
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    signer, signing = (None, key) if issuer is None else issuer
    begin = datetime.now(UTC) - timedelta(hours=1)  # clocks differ
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject if signer is None else signer.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(begin + timedelta(days=days))
        .add_extension(x509.BasicConstraints(ca=signer is None, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signing.public_key()), critical=False
        )
    )
    if signer is not None:
        usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
        builder = builder.add_extension(x509.SubjectAlternativeName(hosts), critical=False)
        builder = builder.add_extension(usage, critical=False)
    return builder.sign(signing, hashes.SHA384())


def _host(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        pass
    if not re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?", text):
        problem = f"{text!r} is neither a host's name nor an address."
        raise RecipeError("--host", problem, "Give what clients will type before the port.")
    return x509.DNSName(text)


def _refuse_existing(paths: Sequence[Path]) -> None:
    for path in paths:
        if path.exists():
            problem = f"{path} exists already."
            raise RecipeError("--keys", problem, "Choose another folder, or remove it if nobody uses it.")


def _write(path: Path, data: bytes, *, private: bool) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 if private else 0o644)
    with os.fdopen(handle, "wb") as file:
        file.write(data)


def _private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _public_pem(key: object) -> bytes:
    if not isinstance(key, ec.EllipticCurvePublicKey):
        raise RecipeError(
            "--keys", "a client's public key is not an elliptic-curve key.", "Ask for it again."
        )
    return key.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
