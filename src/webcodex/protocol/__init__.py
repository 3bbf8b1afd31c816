"""How Server and Runner talk, without a socket."""
