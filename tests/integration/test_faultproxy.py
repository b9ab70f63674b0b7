"""The fault proxy does to a connection what it says, and nothing else."""
import pathlib
import select
import socket
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
import harness  # noqa: E402
from harness import equal, wait_until  # noqa: E402
from proxy import Proxy  # noqa: E402


class _Pair:
    """A client and a server socket with a proxy between them."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.proxy = Proxy(self.listener.getsockname()[1])
        self.sockets = []
        self.client, self.server = self.connect()

    def connect(self):
        client = socket.create_connection(("127.0.0.1", self.proxy.port), timeout=10)
        self.listener.settimeout(10)
        server = self.listener.accept()[0]
        server.settimeout(10)
        self.sockets += [client, server]
        return client, server

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.proxy.__exit__()
        for item in self.sockets + [self.listener]:
            item.close()


def _read(sock, count):
    data = b""
    while len(data) < count:
        more = sock.recv(count - len(data))
        if not more:
            break
        data += more
    return data


def _silent(sock, seconds=0.2):
    return not select.select([sock], [], [], seconds)[0]


def _is_reset(sock):
    try:
        while sock.recv(65536):
            pass
        return False
    except ConnectionResetError:
        return True


def relays_both_ways_and_passes_a_close_on():
    with _Pair() as pair:
        data = bytes(range(256)) * 4096
        pair.client.sendall(b"hello")
        equal(_read(pair.server, 5), b"hello")
        pair.server.setblocking(False)
        sent = got = 0
        received = b""
        while got < len(data):  # more than the queues hold, so both ends must move
            readable, writable, _ = select.select([pair.client], [pair.server] if sent < len(data) else [], [], 10)
            if writable:
                sent += pair.server.send(data[sent:])
            if readable:
                received += pair.client.recv(65536)
                got = len(received)
        assert received == data
        pair.client.shutdown(socket.SHUT_WR)
        pair.server.setblocking(True)
        equal(pair.server.recv(1), b"", "end of stream")
        pair.server.sendall(b"still open this way")
        equal(_read(pair.client, 19), b"still open this way")


def hold_keeps_one_direction_and_loses_nothing():
    with _Pair() as pair:
        pair.proxy("hold 1 up")
        pair.client.sendall(b"later")
        pair.server.sendall(b"now")
        equal(_read(pair.client, 3), b"now")
        assert _silent(pair.server)
        pair.proxy("resume all up")
        equal(_read(pair.server, 5), b"later")


def drop_loses_only_what_comes_meanwhile():
    with _Pair() as pair:
        pair.proxy("drop all down")
        pair.server.sendall(b"lost")
        assert _silent(pair.client)
        pair.proxy("resume all down")
        pair.server.sendall(b"seen")
        equal(_read(pair.client, 4), b"seen")


def cut_relays_exactly_n_bytes_and_ends_as_asked():
    for how in ("rst", "fin"):
        with _Pair() as pair:
            pair.proxy(f"cut 1 up 7 {how}")
            pair.client.sendall(b"0123456789")
            equal(_read(pair.server, 7), b"0123456", how)
            equal(_is_reset(pair.server), how == "rst", how)


def a_black_hole_hides_even_a_close():
    with _Pair() as pair:
        pair.proxy("hole 1")
        pair.client.sendall(b"into nothing")
        pair.client.close()
        assert _silent(pair.server, 0.3)
        pair.server.sendall(b"to nobody")
        other_client, other_server = pair.connect()
        other_client.sendall(b"ok")
        equal(_read(other_server, 2), b"ok", "another connection")


def rate_limits_the_bytes_a_second():
    with _Pair() as pair:
        pair.proxy("rate all up 1000")
        started = time.monotonic()
        pair.client.sendall(bytes(500))
        equal(len(_read(pair.server, 500)), 500)
        took = time.monotonic() - started
        assert 0.35 < took < 2, took


def delay_shifts_each_piece():
    with _Pair() as pair:
        pair.proxy("delay all down 150")
        started = time.monotonic()
        pair.server.sendall(b"x")
        _read(pair.client, 1)
        took = time.monotonic() - started
        assert 0.14 < took < 1, took


def refuse_and_close_end_connections():
    with _Pair() as pair:
        pair.proxy("refuse on")
        late = socket.create_connection(("127.0.0.1", pair.proxy.port), timeout=10)
        equal(late.recv(1), b"", "refused")
        late.close()
        pair.proxy("close all rst")
        assert _is_reset(pair.client) and _is_reset(pair.server)
        wait_until(lambda: pair.proxy.connections() == {}, what="an empty list")


def list_counts_bytes_and_bad_commands_change_nothing():
    with _Pair() as pair:
        pair.client.sendall(b"abc")
        _read(pair.server, 3)
        equal(pair.proxy.connections(), {1: (pair.server.getpeername()[1], 3, 0)})
        for bad in ("hold", "hold 1", "hold 9 up", "hold 1 up now", "cut 1 up x rst", "rate all up", "jump"):
            try:
                pair.proxy(bad)
            except AssertionError:
                continue
            raise AssertionError(f"accepted: {bad}")
        pair.client.sendall(b"d")
        equal(_read(pair.server, 1), b"d")


harness.main(globals())
