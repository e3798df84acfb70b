"""Counts effects outside the process under test: one synced line for each, then an answer."""

import os
import socket
import sys

address, path = sys.argv[1:]
file = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
server = socket.socket(socket.AF_UNIX)
server.bind(address)
server.listen(64)
sys.stdout.write("ready\n")
sys.stdout.flush()
while True:
    client, _ = server.accept()
    with client:
        line = b""
        while not line.endswith(b"\n") and (more := client.recv(4096)):
            line += more
        if not line.endswith(b"\n"):
            continue
        os.write(file, line)
        os.fsync(file)
        try:
            client.sendall(b"ok\n")
        except OSError:
            continue
