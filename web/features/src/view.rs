//! A request, as the features that it comes to see it.

use crate::FeatureParts;
use crate::level::ErrorLevel;
use crate::value::Value;

/// What values stand for, of a request.
pub trait Values {
    /// A value, now.
    fn value(&mut self, value: &Value) -> Vec<u8>;

    /// Writes a value, as it is now.
    fn write(&mut self, value: &Value, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.value(value));
    }
}

/// A request under way.
pub trait RequestView: Values {
    /// What features know of it.
    fn parts(&mut self) -> &mut FeatureParts;
    /// The target, as it was sent.
    fn target(&self) -> &[u8];
    /// The first field of this name, in small letters.
    fn field(&self, name: &str) -> Option<&[u8]>;
    /// The second, since 1970: what is made of it holds in this second.
    fn second(&mut self) -> u64;
    /// A line of the error log, where that has such.
    fn tell(&mut self, level: ErrorLevel, text: &dyn Fn() -> Vec<u8>);
}
