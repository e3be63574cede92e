"""kazoo's Lock, driven as bench drives ours."""
import random
import sys
import threading
import time

from kazoo.client import KazooClient

servers, path, kind, locks, waiters, each, hold, leases = sys.argv[1:9]
locks, waiters, each, hold = int(locks), int(waiters), each == "true", hold == "true"


def connect():
    client = KazooClient(hosts=servers, timeout=20)
    client.start()
    return client


contenders = []
client = None
for i in range(locks * waiters):
    if client is None or each:
        client = connect()
    contenders.append(client.Lock("%s-%d" % (path, i // waiters)))


def turn(millis):
    cpu, began = time.process_time_ns(), time.perf_counter_ns()
    end = began + millis * 1_000_000
    cycles, hand_offs, released = [0] * len(contenders), [], [0] * locks

    def work(i):
        lock, at = contenders[i], i // waiters
        while time.perf_counter_ns() < end:
            lock.acquire()
            now = time.perf_counter_ns()
            if hold and released[at] and now < end:
                hand_offs.append(now - released[at])
            if hold and now < end:
                time.sleep(random.uniform(0.002, 0.005))
            released[at] = time.perf_counter_ns()
            lock.release()
            cycles[i] += 1

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(contenders))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    took = time.perf_counter_ns() - began
    print(sum(cycles), took, time.process_time_ns() - cpu, 0, *hand_offs, flush=True)


for line in sys.stdin:
    turn(int(line))
