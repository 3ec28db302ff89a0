//! What is ours beside nginx with the same configuration: what of the language is
//! refused and in which words, and what locations, names of hosts, paths and values
//! mean, and which servers of upstreams are asked. Without nginx on this machine nothing is compared.

mod balancing;
mod locations;
mod meaning;
mod memory;
mod names;
mod paths;
mod process;
mod values;
mod words;
