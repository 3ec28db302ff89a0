//! What the packet path costs: experiments that print figures, and the
//! verdict where a bound was promised.
//!
//! | module | for |
//! | --- | --- |
//! | [`rig`] | the real server and the real load generator over a pair in memory |
//! | [`cost`] | instructions per request, and where they go |
//! | [`connections`] | memory and time with a million connections open |
//! | [`frames`] | requests beside the frames that the same link carries |
//! | [`dpdk`] | DPDK's memif beside our own |
//! | [`tls`] | `nearside nginx` over TLS beside nginx |
//! | [`kernel`] | `nearside serve` on kernel sockets beside nginx |
//! | [`pace`] | instructions per segment of paced flows, few and many |
//! | [`offered`] | what a request costs at 5 to 60 % of nginx's best, beside it and others |
//! | [`packet`] | `nearside packet forward` beside dpdk-testpmd |
//! | [`noise`](mod@noise) | disturbances made on purpose, and what they are called |
//! | [`uncached`] | pipelined requests for files that are not in memory |
//! | [`readers`] | a download beside thousands of readers that take nothing |
//! | [`sealing`] | records of TLS, sealed and opened, and nothing else |
//! | [`silos`] | two silos or workers beside one |
//! | [`storm`] | a packet storm on one silo's queue, felt at another or not |
//! | [`watch`](mod@watch) | what `nearside watch` reads, beside sysstat |
//! | [`valgrind`] | how `nearside` itself runs under it |
//! | [`generator`] | `nearside load` beside wrk |
//! | [`generator_http2`] | `nearside load` over HTTP/2 beside h2load |
//! | [`frame_server`] | a server of HTTP/2 that does as little as it can |
//! | [`grpc`] | calls of gRPC passed on, beside nginx, and beside a client that stalls |
//! | [`site`] | an ordinary site by its nginx.conf, on every data path beside nginx |
//! | [`hosts`] | an nginx.conf with 10,000 hosts beside one with one |
//! | [`http2`] | HTTP/2 of many streams and of one, beside nginx and h2o |
//! | [`squeezed`] | texts compressed on the fly, beside nginx |
//! | [`proxied`] | requests passed on to an upstream, on every data path beside nginx |
//! | [`bodies`] | long bodies of requests and answers passed on, beside nginx |
//! | [`slow`] | a long answer passed on to a client that takes it slowly |
//! | [`posix`] | a program on our stack as it is, beside our own server |
//! | [`peer`] | a generator and a server on one host |
//! | [`goodput`] | transfers over a lossy link beside the Mathis bound |

pub mod bodies;
mod callgrind;
mod client;
pub mod connections;
pub mod cost;
pub mod dpdk;
#[cfg(test)]
mod fast_path;
pub mod frame_server;
pub mod frames;
pub mod generator;
pub mod generator_http2;
pub mod goodput;
pub mod grpc;
pub mod hosts;
pub mod http2;
pub mod kernel;
mod linux;
pub mod media;
pub mod noise;
pub mod offered;
mod ordinary;
pub mod pace;
pub mod packet;
mod page;
pub mod peer;
pub mod posix;
mod program;
pub mod proxied;
pub mod readers;
pub mod rig;
pub mod sealing;
pub mod secured;
pub mod silos;
pub mod site;
pub mod slow;
pub mod squeezed;
mod steps;
pub mod storm;
pub mod tls;
pub mod uncached;
pub mod valgrind;
pub mod watch;

/// What ends an experiment: a sentence for the user.
pub type BenchError = Box<dyn std::error::Error>;
