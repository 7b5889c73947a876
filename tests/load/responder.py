"""A scripted HTTP/1.1 server for the tests of the load engine, run as its own process.

The path of a request says what to do with it. Prints its port, then serves until it is killed.
"""

import asyncio
import os
import ssl
import sys
import time

import httptools

BODY = b'{"ok": true}'


def reply(status=200, body=BODY, headers=(), length=None):
    lines = [f"HTTP/1.1 {status} Said So", *headers]
    if length is None:
        length = len(body)
    lines.append(f"Content-Length: {length}")
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


everyone = set()


class Responder(asyncio.Protocol):
    def connection_made(self, transport):
        self.transport = transport
        self.parser = httptools.HttpRequestParser(self)
        everyone.add(self)

    def connection_lost(self, exc):
        everyone.discard(self)

    def data_received(self, data):
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserError:
            self.transport.close()

    def on_url(self, url):
        self.path = url.decode().strip("/").split("/")

    def on_message_complete(self):
        what, *rest = self.path
        getattr(self, what.replace("-", "_"))(*rest)

    def later(self, seconds, call, *arguments):
        asyncio.get_running_loop().call_later(seconds, call, *arguments)

    # What a path can ask for

    def delay(self, milliseconds):
        if milliseconds == "0":
            self.transport.write(reply())
        else:
            self.later(float(milliseconds) / 1000, self.transport.write, reply())

    def status(self, code):
        location = [f"Location: http://127.0.0.1:{PORT}/delay/0"] if code.startswith("3") else []
        body = b"" if code == "204" else BODY
        self.transport.write(reply(int(code), body, headers=location))

    def never(self):
        pass

    def freeze(self, milliseconds):
        time.sleep(float(milliseconds) / 1000)
        self.transport.write(reply())

    def cut_in_the_head(self):
        self.transport.write(b"HTTP/1.1 200 OK\r\nContent-Le")
        self.later(0.002, self.transport.close)

    def cut_in_the_body(self):
        self.transport.write(reply(length=len(BODY) + 100))
        self.later(0.002, self.transport.close)

    def hang_up(self):
        self.transport.close()

    def garbage(self):
        self.transport.write(b"SSH-2.0-OpenSSH_9.2p1\r\n")

    def surplus(self):
        self.transport.write(reply(body=BODY + b"and more", length=len(BODY)))

    def twice(self):
        self.transport.write(reply() + reply())

    def until_close(self):
        self.transport.write(b"HTTP/1.1 200 OK\r\n\r\n" + BODY)
        self.later(0.002, self.transport.close)

    def chunked(self):
        self.transport.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n{}  \r\n")
        self.later(0.002, self.transport.write, b"0\r\n\r\n")

    def announced(self):
        self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n" + reply())

    def connection_close(self):
        self.transport.write(reply(headers=["Connection: close"]))
        self.transport.close()

    def close_when_idle(self):
        self.transport.write(reply())
        self.later(0.002, self.transport.close)

    def reset_everyone(self):
        for one in tuple(everyone):
            one.transport.abort()

    def exit(self):
        os._exit(0)


async def main():
    global PORT
    tls = None
    if len(sys.argv) > 1:
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        tls.load_cert_chain(sys.argv[1])
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Responder, "127.0.0.1", 0, ssl=tls, backlog=2048)
    PORT = server.sockets[0].getsockname()[1]
    sys.stdout.write(f"{PORT}\n")
    sys.stdout.flush()
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
