"""Bradley–Terry reward models, trained by clients whose preferences may be opposed."""
