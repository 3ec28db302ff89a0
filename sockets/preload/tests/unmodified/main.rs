//! The distribution's nginx, unmodified, on our stack: by `nearside run` over a TAP device, with the
//! kernel as the client.

mod programs;
mod server;
mod serves;
mod workers;
