//! What a request that is kept is kept for.

use wire::Time;

/// What a request that is kept is kept for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum RequestStage {
    /// It runs.
    #[default]
    Runs,
    /// It waits for a look at a file, or at a password.
    Looks,
    /// Its answer is being sent.
    Sends,
    /// It is over.
    Over,
}

/// What of a file was another than when it was looked for, and is done once more.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Again {
    /// It was another when it was to be sent.
    pub sent: bool,
    /// It could not be read, which is told already.
    pub failed: bool,
    /// An answer of a file was refused: there is no room for it, or the file is never the same.
    pub refused: bool,
    /// It was another when its head was to be cut (`mp4`).
    pub sought: bool,
    /// It was gone after `try_files` had found it.
    pub tried: Tried,
}

/// What `try_files` has done for a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Tried {
    /// Nothing yet.
    #[default]
    No,
    /// It has found a file.
    Found,
    /// That was gone when it was to be answered, and others have been tried.
    Again,
}

/// What a request waits for.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    pub stage: RequestStage,
    /// What the verifier, or who wakes it later, knows it by.
    pub ticket: Option<u64>,
    /// The handler's mark for files.
    pub inner: Option<u32>,
    /// What is looked for next was waited for.
    pub waited: bool,
    /// What of a file was another than when it was looked for.
    pub again: Again,
    /// Its password is looked at, which stands in a file.
    pub login: bool,
    /// What the end of its patience with files is known by, where the engine looks after that.
    pub limit: Option<u64>,
    /// When the file that is being sent gave something last.
    pub moved: Option<Time>,
}
