//! The distribution's nginx, unmodified, on our stack: by `nearside run` over each kind of link, with
//! the kernel as the client.

mod away;
mod calls;
mod ends;
mod links;
mod lives;
mod memif;
mod paces;
mod programs;
mod rare;
mod resets;
mod sequences;
mod server;
mod serves;
mod status;
mod stopped;
mod workers;
