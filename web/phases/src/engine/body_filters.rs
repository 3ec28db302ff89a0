//! What an answer's content passes on its way to its client.
//!
//! | module | for |
//! | --- | --- |
//! | `choose` | which filters it passes, and what becomes of its fields by that |
//! | `compress` | in which coding it is sent |
//! | `send` | it is made a piece at a time, as its client takes it |

mod choose;
mod compress;
mod send;
