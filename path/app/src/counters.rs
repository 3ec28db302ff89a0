//! What is counted: by the layers of a data path, and by applications.

/// Defines a struct of `u64` counters, by name and in the order of their
/// declaration. What is written above one says what it counts wherever it is
/// shown.
#[macro_export]
macro_rules! counters {
    ($(#[$outer:meta])* $vis:vis $name:ident { $($(#[doc = $doc:literal])* $field:ident),* $(,)? }) => {
        $(#[$outer])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
        $vis struct $name { $($(#[doc = $doc])* pub $field: u64),* }

        impl $name {
            /// What each counts, by name.
            $vis const HELP: &'static [(&'static str, &'static str)] =
                &[$((stringify!($field), concat!($($doc),*))),*];

            /// Every counter with its name.
            $vis fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
                [$((stringify!($field), self.$field)),*].into_iter()
            }
        }
    };
}
