"""kazoo's Lock, used as a service would; what happens is printed, a line each."""
import random
import sys
import time

from kazoo.client import KazooClient

servers, path, counter, rounds = sys.argv[1:5]
client = KazooClient(hosts=servers, timeout=10)
client.start()
print("session", flush=True)
lock = client.Lock(path, "kazoo")
for _ in range(int(rounds)):
    with lock:  # inside, nothing is atomic, on purpose
        value, _ = client.get(counter)
        time.sleep(random.uniform(0, 0.002))
        client.set(counter, b"%d" % (int(value) + 1))
print("done", flush=True)
client.stop()
