//! Workers as pods of a cluster.

mod drive;
mod pods;
mod reach;
mod start;

pub use pods::Pods;
pub use reach::{ClusterFiles, reach, secret_of};
pub use start::{ClusterTest, Found, Started, Starting, WorkerKeys, listen, listen_again};
