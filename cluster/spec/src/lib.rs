//! What a load on many machines is to be, as its file says: read, and refused with the field and the reason before
//! anything starts. Without I/O.
//!
//! ```yaml
//! apiVersion: nearside.dev/v1alpha1
//! kind: LoadTest
//! metadata:
//!   name: checkout
//! spec:
//!   target: http://10.0.0.2:8080/
//!   workers: 3
//!   connections: 96          # of all workers together
//!   arrival: poisson         # or constant; closed without a rate
//!   rate: 30k                # likewise
//!   duration: 30s
//!   expect: [p99<10ms, errors<0.1%]
//! ```
//!
//! | module | for |
//! | --- | --- |
//! | `test` | the types |
//! | `read` | from a file to them |
//! | `node_audit` | an audit of the nodes of a cluster, in the same way |
//! | `pods` | what its workers are as pods |
//! | `fields` | fields of a map: each known, each there once, each with its place |
//! | `values` | what stands in one |
//! | `schema` | the same as the API server checks it, before there is an object |
//! | `arranged` | from them to the plan of a load, and to a worker's command line |
#![forbid(unsafe_code)]

mod arranged;
mod fields;
mod node_audit;
mod pods;
mod read;
mod schema;
mod test;
mod values;

pub use arranged::{Arranged, ControllerPlace, Files, WorkerPlace};
pub use fields::FieldError;
pub use node_audit::{Expectation, NodeAudit, kind};
pub use pods::image;
pub use read::{POD_PREFIX, SPEC_LIMIT, VERSION};
pub use schema::{audit_schema, schema};
pub use test::{
    Amounts, FieldValue, LoadTest, PodsSpec, RequestSpec, Resources, SecretKey, Span, Spread, TargetSpec, Toleration,
    WORKERS_LIMIT, memory_of_worker,
};
pub use values::name;
