//! What requests within requests are made for: whether a request may go on, what its
//! content has before and behind it, copies of it for others, and parts of a long answer.

use crate::script::SetTarget;
use features::{MediaTypes, Value};

/// `auth_request`, and the variables that its answer sets.
#[derive(Clone, Debug, Default)]
pub struct PermissionRules {
    /// The path that is asked; empty: nothing is.
    pub uri: Box<[u8]>,
    /// `auth_request_set`: what is set to what, as the request that asked has it.
    pub set: Vec<(SetTarget, Value)>,
}

/// What a place's answers are made of beside their content.
#[derive(Clone, Debug)]
pub struct SubrequestRules {
    /// `add_before_body`
    pub before: Option<Box<[u8]>>,
    /// `add_after_body`
    pub after: Option<Box<[u8]>>,
    /// Of content of these types (`addition_types`).
    pub types: MediaTypes,
    /// Paths that have a copy of each request (`mirror`).
    pub mirrors: Vec<Box<[u8]>>,
    /// With its body (`mirror_request_body`).
    pub mirrors_body: bool,
    /// Bytes of an answer that is kept in memory (`subrequest_output_buffer_size`).
    pub memory_max: u64,
    /// Bytes of the parts by which a long answer is asked for (`slice`); 0: it is asked for
    /// as a whole.
    pub slice: u64,
}

impl Default for SubrequestRules {
    fn default() -> Self {
        Self {
            before: None,
            after: None,
            types: MediaTypes::default(),
            mirrors: Vec::new(),
            mirrors_body: true,
            memory_max: 4 << 10,
            slice: 0,
        }
    }
}
