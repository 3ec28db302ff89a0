//! What is to be done, and how a test goes.

use messages::{Beat, ToWorker};

/// A connection to the controller.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ChannelId(pub u64);

/// What is to be done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    /// Start the process of a worker, if there is none.
    Launch {
        /// Which.
        worker: u32,
    },
    /// Send a message.
    Send {
        /// To whom.
        channel: ChannelId,
        /// What.
        message: ToWorker,
    },
    /// Close a connection.
    Close {
        /// Which.
        channel: ChannelId,
    },
    /// End a worker's process, if there is one.
    Kill {
        /// Whose.
        worker: u32,
    },
}

/// How far a test is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Progress {
    /// Workers make ready.
    Preparing,
    /// All were told when to begin.
    Loading,
    /// It ends before its time.
    Ending,
    /// Nothing more comes.
    Over,
}

/// How a worker's load goes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RunningWorker {
    /// Whether it came.
    pub is_here: bool,
    /// Whether it is ready.
    pub is_ready: bool,
    /// What it last said.
    pub beat: Beat,
}
