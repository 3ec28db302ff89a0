//! What stands behind a directive's name, and in its block.

use crate::reader::Directive;
use core::time::Duration;
use features::units::{number, time};

/// What stands in a directive's block.
pub(super) fn inside(directive: &Directive) -> &[Directive] {
    directive.block.as_deref().unwrap_or_default()
}

/// An argument; nothing if there is none.
pub(super) fn argument(directive: &Directive, at: usize) -> &[u8] {
    directive.arguments.get(at).map_or(&[], Vec::as_slice)
}

/// Whether a directive is part of a script.
pub(super) fn is_script(name: &[u8]) -> bool {
    matches!(name, b"set" | b"rewrite" | b"if" | b"return" | b"break")
}

/// `on`, of a value that is that or `off`.
pub(super) fn is_on(directive: &Directive) -> bool {
    argument(directive, 0).eq_ignore_ascii_case(b"on")
}

/// A number that the reader has found good.
pub(super) fn count(directive: &Directive) -> u32 {
    u32::try_from(number(argument(directive, 0)).unwrap_or_default()).unwrap_or(u32::MAX)
}

/// A time that the reader has found good.
pub(super) fn duration(directive: &Directive) -> Duration {
    Duration::from_millis(time(argument(directive, 0), false).unwrap_or_default())
}

/// A text for people.
pub(super) fn told(text: &[u8]) -> String {
    String::from_utf8_lossy(text).into_owned()
}
