//! memif as one driver of several.

use crate::config::{Address, Config, QUEUES_LIMIT};
use crate::{Memif, MemifLink};
use core::error::Error;
use driver::{BadConfig, Copies, Driver, Kind, Open, Opened, Opening, Queue, Role};
use std::path::Path;

const HELP: &str = "memif is shared memory with another process; a socket that begins with @ is an abstract one. \
     Options follow it, separated by commas: role=server|client (the usual: serve is server, load is client), id=N \
     (0), ring=DESCRIPTORS (256), buffer=BYTES (2048), mtu=BYTES (1500), hugepages=on|off (on), mode=interrupt|poll \
     (interrupt), secret=TEXT, name=TEXT, sealed=required|optional (optional), copy=on|off (off: read frames where \
     the peer could still write), memory=MIB (1024, or 128 for each queue: ordinary pages that a client may share), \
     socket-mode=OCTAL (0600), peers=own|any|UID:UID:... (own: this user's processes and root's).";

impl Driver for Config {
    fn kind(&self) -> &'static Kind {
        &Self::KIND
    }

    fn name(&self) -> String {
        if self.id == 0 { format!("memif:{}", self.socket) } else { format!("memif:{},id={}", self.socket, self.id) }
    }

    fn most_queues(&self) -> u16 {
        QUEUES_LIMIT
    }

    fn listens_on(&self) -> Option<&Path> {
        match (self.role, &self.socket) {
            (Role::Server, Address::Path(path)) => Some(path),
            _ => None,
        }
    }

    fn connects(&self) -> bool {
        self.role == Role::Client
    }
}

impl Open for Config {
    const KIND: Kind = Kind {
        copies: Copies::Stack,
        in_memory: true,
        threads: &["memif-bell"],
        ..Kind::new("memif", "memif:SOCKET", "memif:/run/nearside.sock", HELP)
    };

    type Queue = MemifLink;

    fn read(text: &str, role: Role) -> Result<Self, BadConfig> {
        Self::parse(text, role).map_err(|why| BadConfig(why.to_string()))
    }

    fn open(&self, opening: Opening<'_>) -> Result<Opened<MemifLink>, Box<dyn Error>> {
        let queues = opening.queues;
        Ok(Memif::open(Self { queues, ..self.clone() })?.split_queues().into())
    }
}

impl Queue for MemifLink {}
