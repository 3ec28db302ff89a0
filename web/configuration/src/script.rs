//! What is done in the rewrite phase of a server or a location: instructions,
//! one after the other, with jumps, as the directives `set`, `rewrite`, `if`,
//! `return` and `break` come to.

use crate::ids::BlockId;
use features::Value;

/// One step of a script.
#[derive(Clone, Debug)]
pub enum Instruction {
    /// `set`: writes a variable.
    Set {
        /// Which.
        target: SetTarget,
        /// What to.
        value: Value,
    },
    /// `rewrite`: if the path matches, it is replaced.
    Rewrite {
        /// The expression.
        expression: u32,
        /// What takes its place: all of it before its first `?`.
        replacement: Value,
        /// What follows that `?`, if there is one and something does: the query.
        arguments: Option<Value>,
        /// The query that was sent is added. Not where the replacement ends with
        /// `?`.
        keeps_query: bool,
        /// What is done then.
        then: RewriteFlag,
    },
    /// `return`: the end, with this status.
    Return {
        /// The status; 444 closes without a word.
        status: u16,
        /// The body, or where to, if the status is that of a redirect.
        text: Option<Value>,
    },
    /// `break`: the end of the phase.
    Break,
    /// `if`: goes on at `otherwise`, unless the condition holds; if it does, in a
    /// location, its settings count from now on.
    If {
        /// What is asked.
        condition: Condition,
        /// Where it goes on else: an instruction's number in this script.
        otherwise: u32,
        /// The settings of the block that follows.
        settings: Option<BlockId>,
    },
}

/// What `set` writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SetTarget {
    /// A variable of the configuration.
    Slot(u16),
    /// `$args`, and so `$query_string`.
    Arguments,
    /// `$limit_rate`.
    LimitRate,
}

/// What follows a `rewrite` that matched.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RewriteFlag {
    /// The next instruction.
    Next,
    /// The end of the phase, and another search for the location (`last`).
    Last,
    /// The end of the phase (`break`).
    Break,
    /// A redirect: 302, or 301.
    Redirect(u16),
}

/// What an `if` asks.
#[derive(Clone, Debug)]
pub enum Condition {
    /// Whether a value is neither empty nor `0`.
    True(Value),
    /// Whether two are the same (`=`, `!=`).
    Equal {
        /// One: a variable.
        left: Value,
        /// The other.
        right: Value,
        /// Whether they are not.
        negated: bool,
    },
    /// Whether an expression matches (`~`, `~*`, `!~`, `!~*`).
    Matches {
        /// What: a variable.
        left: Value,
        /// The expression.
        expression: u32,
        /// Whether it does not.
        negated: bool,
    },
    /// What is at a path (`-f`, `-d`, `-e`, `-x`).
    File {
        /// The path.
        path: Value,
        /// What is asked of it.
        test: FileTest,
        /// Whether it is not so.
        negated: bool,
    },
}

/// What is asked of a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FileTest {
    /// `-f`
    File,
    /// `-d`
    Directory,
    /// `-e`
    Exists,
    /// `-x`
    Executable,
}
