//! Records against published ones, against rustls's own, and against peers that do what
//! they may not.

mod hostile;
mod memory;
mod peers;
mod rfc8448;
mod same;
mod support;
