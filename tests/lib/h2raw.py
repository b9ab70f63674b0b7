"""HTTP/2 by hand: a gRPC client that does not do what clients do. It reads when told to, and grants what it likes."""
import socket
import struct

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
END_STREAM, END_HEADERS, ACK = 1, 4, 1


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def _text(value):
    value = value.encode()
    assert len(value) < 127
    return bytes([len(value)]) + value


def header_block(fields):
    """HPACK without its tables: every name and value as it is."""
    return b"".join(b"\x00" + _text(name) + _text(value) for name, value in fields)


def message(body):
    return b"\x00" + struct.pack(">I", len(body)) + body


class Raw:
    """One connection. `window` is what each of its streams may be sent before it grants more."""

    def __init__(self, port, window=65535):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=10)
        self.socket.sendall(PREFACE + frame(SETTINGS, 0, 0, struct.pack(">HI", 4, window)))
        self.next_stream, self.rest = 1, b""

    def open(self, method, body=None, end=True, fields=()):
        """Begins a call and sends a message; returns its stream."""
        stream, self.next_stream = self.next_stream, self.next_stream + 2
        block = header_block([(":method", "POST"), (":scheme", "http"), (":path", f"/harbinger_rpc.Broker/{method}"),
                              (":authority", "x"), ("content-type", "application/grpc"), ("te", "trailers"), *fields])
        data = frame(HEADERS, END_HEADERS, stream, block)
        if body is not None:
            data += self.data(stream, body, end)
        self.socket.sendall(data)
        return stream

    @staticmethod
    def data(stream, body, end):
        return frame(DATA, END_STREAM if end else 0, stream, message(body))

    def send(self, stream, body, end=False):
        self.socket.sendall(self.data(stream, body, end))

    def grant(self, stream, count):
        self.socket.sendall(frame(WINDOW_UPDATE, 0, stream, struct.pack(">I", count)))

    def read(self):
        """The next frame as (kind, flags, stream, payload); None at the end."""
        while len(self.rest) < 9 or len(self.rest) < 9 + int.from_bytes(self.rest[:3], "big"):
            more = self.socket.recv(1 << 20)
            if not more:
                return None
            self.rest += more
        end = 9 + int.from_bytes(self.rest[:3], "big")
        kind, flags, stream = struct.unpack(">BBI", self.rest[3:9])
        payload, self.rest = self.rest[9:end], self.rest[end:]
        return kind, flags, stream, payload

    def close(self):
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
