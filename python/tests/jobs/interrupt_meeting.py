"""Prints what ends a meeting to which the other rank never comes."""

import signal

import weftcomm as weft

signal.signal(signal.SIGINT, signal.default_int_handler)  # also where a shell started this in its background
place = weft.MeetingPlace(2)
print("waiting", flush=True)
try:
    weft.connect(place.id, 0, 2)
except KeyboardInterrupt:
    print("KeyboardInterrupt", flush=True)
