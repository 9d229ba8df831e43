"""A PostgreSQL on TCP as an operator runs one: passwords, an owner who is no superuser, and TLS before it.

The server of the wheel is built without TLS. A front in the test's process speaks it, as PostgreSQL's protocol
has it (SSLRequest, `S`, handshake), and passes on what is inside.
"""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psycopg
import trustme
from psycopg import sql

from core.adapters.embedded_postgres import _control, start_postgres, stop_postgres
from tests.valkeys import free_port

OWNER, PASSWORD = "owner", "owners-secret"
DATABASE = "kept"
SSL_REQUEST = bytes.fromhex("0000000804d2162f")


@dataclass(frozen=True, slots=True)
class TcpPostgres:
    """A server on 127.0.0.1."""

    port: int

    def url(
        self, *, port: int | None = None, password: str = PASSWORD, database: str = DATABASE, **options: str
    ) -> str:
        """The URL of a database for its owner, perhaps by another port; `options` are libpq's."""
        query = "&".join(f"{name}={value}" for name, value in options.items())
        return f"postgresql://{OWNER}:{password}@localhost:{port or self.port}/{database}?{query}"


@contextmanager
def tcp_postgres(home: Path) -> Iterator[TcpPostgres]:
    """A server in this home, until the end of the block."""
    socket_url = start_postgres(home)
    with psycopg.connect(socket_url, autocommit=True) as admin:
        owner = sql.Identifier(OWNER)
        admin.execute(
            sql.SQL("CREATE ROLE {} LOGIN CREATEROLE CREATEDB PASSWORD {}").format(owner, sql.Literal(PASSWORD))
        )
        admin.execute(sql.SQL("CREATE DATABASE {} OWNER {}").format(sql.Identifier(DATABASE), owner))
    stop_postgres(home)
    data = home / "postgres"
    (data / "pg_hba.conf").write_text("host all all 127.0.0.1/32 scram-sha-256\n", encoding="ascii")
    server = TcpPostgres(free_port())
    options = {"listen_addresses": "127.0.0.1", "port": str(server.port), "unix_socket_directories": ""}
    _control(data, "start", "-o", " ".join(f"-c {name}={value}" for name, value in options.items()), "-l", "log")
    try:
        yield server
    finally:
        _control(data, "stop", "-m", "fast")


@dataclass(frozen=True, slots=True)
class TlsFront:
    """Where the front listens, the authority that vouches for it, and the certificate it wants of clients."""

    port: int
    authority: Path
    certificate: Path
    key: Path


@contextmanager
def tls_front(target: int, folder: Path) -> Iterator[TlsFront]:
    """A front on 127.0.0.1 that lets in TLS clients with its authority's certificate, and nobody else."""
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    authority.configure_trust(context)
    context.verify_mode = ssl.CERT_REQUIRED
    client = authority.issue_cert("client@example.org")
    files = folder / "ca.pem", folder / "client.pem", folder / "client.key"
    authority.cert_pem.write_to_path(str(files[0]))
    client.cert_chain_pems[0].write_to_path(str(files[1]))
    client.private_key_pem.write_to_path(str(files[2]))
    files[2].chmod(0o600)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=_accept, args=(listening, context, target), daemon=True).start()
        yield TlsFront(listening.getsockname()[1], *files)
        with suppress(OSError):
            listening.shutdown(socket.SHUT_RDWR)


def _accept(listening: socket.socket, context: ssl.SSLContext, target: int) -> None:
    with suppress(OSError):  # the block has ended
        while True:
            client, _ = listening.accept()
            threading.Thread(target=_serve, args=(client, context, target), daemon=True).start()


def _serve(client: socket.socket, context: ssl.SSLContext, target: int) -> None:
    with suppress(OSError), client:  # a client that is refused, or leaves
        if client.recv(8) != SSL_REQUEST:
            return
        client.sendall(b"S")
        with (
            context.wrap_socket(client, server_side=True) as inside,
            socket.create_connection(("127.0.0.1", target)) as on,
        ):
            inside.settimeout(0.01)  # TLS may hold bytes that select cannot see
            on.settimeout(0.01)
            while _passed(inside, on) and _passed(on, inside):
                pass


def _passed(source: socket.socket, sink: socket.socket) -> bool:
    """Whether there may be more to come."""
    try:
        data = source.recv(65536)
    except TimeoutError:
        return True
    sink.sendall(data)
    return bool(data)
