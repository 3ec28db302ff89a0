//! What a process publishes on its statistics page, for whoever collects metrics:
//! as OpenMetrics over HTTP, at an address of its own.
//!
//! A small thread answers. It reads the page, which silos and workers write anyway,
//! and asks nothing of them: they do not know that anybody looks.
//!
//! | module | for |
//! | --- | --- |
//! | `catalogue` | what a value of the page is called |
//! | `exposition` | all values as text |
//! | `lifecycle` | whether the process lives, and is ready |
//! | `listener` | those who ask: few, and never for long |
//! | `server` | the thread |

mod catalogue;
mod exposition;
mod lifecycle;
mod listener;
mod server;

pub use catalogue::{Catalogue, Family, Sort};
pub use exposition::{Exposition, MEDIA_TYPE, places};
pub use lifecycle::{Lifecycle, Readiness};
pub use listener::{Answer, Endpoint};
pub use server::{Server, answer_at};
