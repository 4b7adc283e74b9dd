"""nixlAgent and nixlAgentConfig: the names of NIXL's binding, over nixl_agent."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from . import _bindings as bindings
from ._api import nixl_agent
from ._bindings import nixl_mem_t, nixl_status_t, nixl_thread_sync_t, nixl_xfer_op_t, nixlRegDList, nixlXferDList
from ._exchange import as_bytes
from ._handles import nixl_agent_config, nixl_prepped_dlist_handle, nixl_xfer_handle, nixlAgentConfig

_DONE, _RUNS = nixl_status_t.NIXL_SUCCESS, nixl_status_t.NIXL_IN_PROG


class nixlAgent:
    """NIXL's calls with numbers as handles. Back ends, lists and requests are numbered from 1 by each agent."""

    def __init__(self, name: str, config: nixlAgentConfig) -> None:
        self._agent = config._of or nixl_agent(
            name,
            nixl_agent_config(
                enable_prog_thread=config.useProgThread,
                enable_listen_thread=config.useListenThread,
                listen_port=config.listenPort,
                capture_telemetry=config.captureTelemetry,
                backends=[],
                sync_mode=nixl_thread_sync_t(config.syncMode),
            ),
        )
        self._numbers = itertools.count(1)
        self._lists: dict[int, nixl_prepped_dlist_handle] = {}
        self._requests: dict[int, nixl_xfer_handle] = {}

    def _names(self, backends: Sequence[int]) -> list[str]:
        by_number = {number: name for name, number in self._agent.backends.items()}
        for number in backends:
            if number not in by_number:
                raise bindings.nixlInvalidParamError(f"no back end has the handle {number}")
        return [by_number[number] for number in backends]

    def _list(self, number: int) -> nixl_prepped_dlist_handle:
        if number not in self._lists:
            raise bindings.nixlInvalidParamError(f"no prepared list has the handle {number}")
        return self._lists[number]

    def _request(self, number: int) -> nixl_xfer_handle:
        if number not in self._requests:
            raise bindings.nixlInvalidParamError(f"no request has the handle {number}")
        return self._requests[number]

    # Plugins and back ends

    def getAvailPlugins(self) -> list[str]:
        return self._agent.get_plugin_list()

    def getPluginParams(self, plugin: str) -> tuple[dict[str, str], list[str]]:
        if plugin not in self._agent.plugin_list:
            raise bindings.nixlNotFoundError(f"no plugin is called '{plugin}'")
        return self._agent.get_plugin_params(plugin), self._agent.get_plugin_mem_types(plugin)

    def createBackend(self, plugin: str, params: Mapping[str, str]) -> int:
        self._agent.create_backend(plugin, dict(params))
        return self._agent.backends[plugin]

    def getBackendParams(self, backend: int) -> tuple[dict[str, str], list[str]]:
        (name,) = self._names([backend])
        return self._agent.get_backend_params(name), self._agent.get_backend_mem_types(name)

    # Memory

    def registerMem(self, descs: nixlRegDList, backends: Sequence[int] = []) -> nixl_status_t:
        self._agent.register_memory(descs, backends=self._names(backends))
        return _DONE

    def deregisterMem(self, descs: nixlRegDList, backends: Sequence[int] = []) -> nixl_status_t:
        self._agent.deregister_memory(descs, self._names(backends))
        return _DONE

    def queryMem(self, descs: nixlRegDList, backend: int) -> list[dict[str, str] | None]:
        return self._agent.query_memory(descs, *self._names([backend]))

    def makeConnection(self, remote_agent: str, backends: Sequence[int] = []) -> nixl_status_t:
        self._agent.make_connection(remote_agent, self._names(backends))
        return _DONE

    # Lists and requests

    def prepXferDlist(
        self, agent_name: str, descs: nixlXferDList | nixl_mem_t, more: Any = None, backends: Sequence[int] = []
    ) -> int:
        """descs, or a kind of memory and rows of {address, bytes, device, stride, count}."""
        if isinstance(descs, nixl_mem_t):
            made = self._agent.prep_xfer_dlist(agent_name, more, descs.name.removesuffix("_SEG"), self._names(backends))
        else:
            made = self._agent.prep_xfer_dlist(agent_name, descs, backends=self._names(more or backends))
        number = next(self._numbers)
        self._lists[number] = made
        return number

    def releasedDlistH(self, number: int) -> nixl_status_t:
        self._list(number).release()
        del self._lists[number]
        return _DONE

    def _keep(self, handle: nixl_xfer_handle) -> int:
        number = next(self._numbers)
        self._requests[number] = handle
        return number

    def makeXferReq(
        self,
        operation: nixl_xfer_op_t,
        local_side: int,
        local_indices: Any,
        remote_side: int,
        remote_indices: Any,
        notif_msg: bytes | str = "",
        backend: Sequence[int] = [],
        skip_desc_merg: bool = False,
    ) -> int:
        return self._keep(
            self._agent.make_prepped_xfer(
                operation.name.removeprefix("NIXL_"),
                self._list(local_side),
                local_indices,
                self._list(remote_side),
                remote_indices,
                as_bytes(notif_msg),
                self._names(backend),
                skip_desc_merg,
            )
        )

    def createXferReq(
        self,
        operation: nixl_xfer_op_t,
        local_descs: nixlXferDList,
        remote_descs: nixlXferDList,
        remote_agent: str,
        notif_msg: bytes | str = "",
        backend: Sequence[int] = [],
    ) -> int:
        return self._keep(
            self._agent.initialize_xfer(
                operation.name.removeprefix("NIXL_"), local_descs, remote_descs, remote_agent, as_bytes(notif_msg), self._names(backend)
            )
        )

    def postXferReq(self, number: int, notif_msg: bytes | str = "") -> nixl_status_t:
        return _DONE if self._agent.transfer(self._request(number), as_bytes(notif_msg)) == "DONE" else _RUNS

    def getXferStatus(self, number: int) -> nixl_status_t:
        return _DONE if self._agent.check_xfer_state(self._request(number)) == "DONE" else _RUNS

    def getXferTelemetry(self, number: int) -> bindings.nixlXferTelemetry:
        return self._agent.get_xfer_telemetry(self._request(number))

    def estimateXferCost(self, number: int) -> tuple[int, int, int]:
        seconds, error, _ = self._agent.estimate_xfer_cost(self._request(number))
        return seconds, error, bindings.NIXL_COST_ANALYTICAL_BACKEND.value

    def queryXferBackend(self, number: int) -> int:
        return self._agent.backends.get(self._agent.query_xfer_backend(self._request(number)), 0)

    def releaseXferReq(self, number: int) -> nixl_status_t:
        self._request(number).release()
        del self._requests[number]
        return _DONE

    def prepMemView(self, *args: Any, **kwargs: Any) -> int:
        return self._agent.prep_mem_view(None)

    def releaseMemView(self, number: int) -> None:
        self._agent.release_mem_view(number)

    # Notifications

    def getNotifs(
        self, notif_map: Mapping[str, Sequence[bytes]], backends: Sequence[int] = []
    ) -> dict[str, list[bytes]]:
        """The map, with what has arrived since."""
        found = {name: list(messages) for name, messages in notif_map.items()}
        for name, messages in self._agent.get_new_notifs(self._names(backends)).items():
            found.setdefault(name, []).extend(messages)
        return found

    def genNotif(self, remote_agent: str, msg: bytes | str, backends: Sequence[int] = []) -> nixl_status_t:
        self._names(backends)
        self._agent.send_notif(remote_agent, as_bytes(msg))
        return _DONE

    # Metadata

    def getLocalMD(self) -> bytes:
        return self._agent.get_agent_metadata()

    def getLocalPartialMD(
        self, descs: nixlRegDList, inc_conn_info: bool = False, backends: Sequence[int] = []
    ) -> bytes:
        return self._agent.get_partial_agent_metadata(descs, inc_conn_info, self._names(backends))

    def loadRemoteMD(self, metadata: bytes | str) -> bytes:
        return self._agent.add_remote_agent(as_bytes(metadata))

    def invalidateRemoteMD(self, remote_agent: str) -> nixl_status_t:
        if remote_agent not in self._agent._peers:
            raise bindings.nixlNotFoundError(f"no peer is called '{remote_agent}'")
        self._agent.remove_remote_agent(remote_agent)
        return _DONE

    def sendLocalMD(self, ip_addr: str = "", port: int = 0) -> None:
        self._agent.send_local_metadata(ip_addr, port or bindings.DEFAULT_COMM_PORT)

    def sendLocalPartialMD(
        self,
        descs: nixlRegDList,
        inc_conn_info: bool = False,
        backends: Sequence[int] = [],
        ip_addr: str = "",
        port: int = 0,
        label: str = "",
    ) -> None:
        port = port or bindings.DEFAULT_COMM_PORT
        self._agent.send_partial_agent_metadata(descs, inc_conn_info, self._names(backends), ip_addr, port, label)

    def fetchRemoteMD(self, remote_agent: str, ip_addr: str = "", port: int = 0, label: str = "") -> None:
        self._agent.fetch_remote_metadata(remote_agent, ip_addr, port or bindings.DEFAULT_COMM_PORT, label)

    def invalidateLocalMD(self, ip_addr: str = "", port: int = 0) -> None:
        self._agent.invalidate_local_metadata(ip_addr, port or bindings.DEFAULT_COMM_PORT)

    def checkRemoteMD(self, remote_agent: str, descs: nixlXferDList) -> nixl_status_t:
        known = self._agent.check_remote_metadata(remote_agent, descs)
        return _DONE if known else nixl_status_t.NIXL_ERR_NOT_FOUND


# NIXL has them in its binding module.
bindings.nixlAgent, bindings.nixlAgentConfig = nixlAgent, nixlAgentConfig  # type: ignore[attr-defined]
