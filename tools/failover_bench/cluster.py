"""The way into a cluster, as a process of its own: answers, until it is told to be lost.

`python3 cluster.py PORT RECORD`. SIGUSR1 makes it reset, SIGUSR2 makes it silent; from then on it
writes down the time of every request that is no health check, in nanoseconds of the monotonic
clock, which all processes of a machine share.
"""

import asyncio
import signal
import socket
import struct
import sys
import time

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello\n"
HEALTH = b"GET /healthz "


class Cluster(asyncio.Protocol):
    lost, record = None, None

    def connection_made(self, transport):
        self.transport, self.read = transport, b""

    def data_received(self, data):
        self.read += data
        while (end := self.read.find(b"\r\n\r\n")) >= 0:
            head, self.read = self.read[:end], self.read[end + 4:]
            self.answer(head)

    def answer(self, head):
        if Cluster.lost and not head.startswith(HEALTH):
            Cluster.record.write(f"{time.monotonic_ns()}\n")
        if Cluster.lost is None:
            self.transport.write(ANSWER)
        elif Cluster.lost == "resets":
            linger = struct.pack("ii", 1, 0)
            self.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            self.transport.abort()


async def main(port, record):
    Cluster.record = open(record, "a", buffering=1)
    loop = asyncio.get_running_loop()
    for number, how in ((signal.SIGUSR1, "resets"), (signal.SIGUSR2, "silent")):
        loop.add_signal_handler(number, lambda how=how: setattr(Cluster, "lost", how))
    server = await loop.create_server(Cluster, "127.0.0.1", port, backlog=1024)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), sys.argv[2]))
