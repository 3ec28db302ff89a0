//! `limit_req` and `limit_conn`.

use crate::value::Value;

/// What is limited together (`limit_req_zone`, `limit_conn_zone`).
#[derive(Debug)]
pub struct Zone {
    /// Its name.
    pub name: Box<[u8]>,
    /// Whom it tells apart.
    pub key: Value,
}

/// A `limit_req` or `limit_conn` of a place.
#[derive(Clone, Debug)]
pub struct LimitUse {
    /// The zone's number in [`crate::Program::zones`].
    pub zone: u16,
}
