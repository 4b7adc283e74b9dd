"""The package `nixl` of programs that were written for NIXL: weftcomm.nixl."""

from weftcomm.nixl import install

install()
