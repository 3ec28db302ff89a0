//! Variables that are made of others: `map`, `geo`, `split_clients`.

use crate::value::Value;

/// A `map`.
#[derive(Debug)]
pub struct Map {
    /// What is looked for.
    pub source: Value,
}

/// A `geo`.
#[derive(Debug)]
pub struct Geo {
    /// The address that is looked for; `None`: the client's.
    pub source: Option<Value>,
}

/// A `split_clients`.
#[derive(Debug)]
pub struct SplitClients {
    /// What is hashed.
    pub source: Value,
}
