//! As much of a client of Kubernetes as one test needs: where a cluster is, one question and its answer, and what a
//! pod's status says of a worker. Objects are JSON.
//!
//! | module | for |
//! | --- | --- |
//! | `access` | where a cluster is, and by what right: kubeconfig files, and a pod's own account |
//! | `client` | one question, one answer: HTTP/1.1, over TLS where the server has it |
//! | `pods` | what a pod's status says of the worker in it |
#![forbid(unsafe_code)]

mod access;
mod client;
mod pods;

pub use access::{Access, Credentials, FilesOfAccess, Server, ServiceAccount};
pub use client::{ApiError, Client, Method};
pub use pods::{Fate, end_of, fate, worker_of};
