//! The drivers: one row for each. What a row is worth to the program, its text, its
//! help, what it can do and how it opens links, the driver's own crate says
//! (`drivers/driver`).

use crate::any::AnyLink;
use crate::port::Port;
use crate::published::Take;
use crate::values::BadValue;
use core::ops::{Deref, DerefMut};
use driver::{BadConfig, Copies, Driver, Kind, Open, Opening, Queue, Role};
use say::Failure;
use steer::Rss;

/// Makes of each row what must name every driver.
macro_rules! drivers {
    ($($(#[$about:meta])* $name:ident($settings:ty => $queue:ty),)*) => {
        /// A driver's settings, which know what it does.
        #[derive(Clone, PartialEq, Eq, Debug)]
        pub enum DriverSpec {
            $($(#[$about])* $name($settings),)*
        }

        /// What is told of each driver.
        pub const KINDS: &[Kind] = &[$(<$settings as Open>::KIND),*];

        impl DriverSpec {
            /// Reads a link's text; `None`: there is no such driver.
            fn read(text: &str, role: Role) -> Option<Result<Self, BadConfig>> {
                let name = text.split(':').next();
                $(if name == Some(<$settings as Open>::KIND.name) {
                    return Some(<$settings>::read(text, role).map(Self::$name));
                })*
                None
            }

            /// Goes on with the driver as a type.
            pub fn with<U: DriverUser>(&self, user: U) -> U::Outcome {
                match self {
                    $(Self::$name(_) => user.with::<$settings>(),)*
                }
            }

            /// Opens the link, as one of any kind.
            ///
            /// # Errors
            /// The driver's.
            pub fn open_any(&self, opening: Opening<'_>) -> Result<Vec<AnyLink>, Failure> {
                match self {
                    $(Self::$name(settings) => {
                        Ok(settings.open(opening)?.queues.into_iter().map(Into::into).collect())
                    })*
                }
            }
        }

        impl Deref for DriverSpec {
            type Target = dyn Driver;

            fn deref(&self) -> &(dyn Driver + 'static) {
                match self {
                    $(Self::$name(settings) => settings,)*
                }
            }
        }

        impl DerefMut for DriverSpec {
            fn deref_mut(&mut self) -> &mut (dyn Driver + 'static) {
                match self {
                    $(Self::$name(settings) => settings,)*
                }
            }
        }

        $(
            impl Row for $settings {
                fn of(driver: &DriverSpec) -> Option<&Self> {
                    if let DriverSpec::$name(settings) = driver { Some(settings) } else { None }
                }
            }

            impl From<$queue> for AnyLink {
                fn from(link: $queue) -> Self {
                    Self::new(link)
                }
            }

            impl Port for $queue {
                fn counts(&self, take: Take<'_>) {
                    let mut names = <$settings as Open>::KIND.counts.iter();
                    Queue::counts(self, &mut |value| names.next().into_iter().for_each(|name| take(name, value)));
                }

                fn gone(&self, each: &mut dyn FnMut(Option<u16>, bool)) {
                    Queue::is_gone(self).into_iter().for_each(|gone| each(None, gone));
                }

                fn rss(&self) -> Option<(Rss, u16)> {
                    Queue::rss(self)
                }
            }
        )*
    };
}

drivers! {
    /// Shared memory with another process.
    Memif(memif::Config => memif::MemifLink),
    /// A TAP device of the local kernel.
    Tap(tap::Config => tap::Tap),
    /// An interface by a packet socket.
    AfPacket(af_packet::Config => af_packet::PacketLink),
    /// Queues of a network interface.
    AfXdp(af_xdp::Config => af_xdp::XdpLink),
    /// A port of the distribution's DPDK.
    Dpdk(dpdk::Config => dpdk::DpdkLink),
}

/// A driver of the table, as a type.
pub trait Row: Open<Queue: Port + Into<AnyLink>> {
    /// There are copies for its queues of what only moves frames.
    const HAS_LOOPS: bool = !matches!(Self::KIND.copies, Copies::Shared);
    /// And of the stack.
    const HAS_STACK: bool = matches!(Self::KIND.copies, Copies::Stack);

    /// Its settings, if they are its.
    fn of(driver: &DriverSpec) -> Option<&Self>;
}

/// Whoever does something with a driver as a type.
pub trait DriverUser {
    /// What comes of it.
    type Outcome;

    /// Does it.
    fn with<D: Row>(self) -> Self::Outcome;
}

/// Where frames come from and go to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LinkSpec {
    /// By which driver, and its settings.
    pub driver: DriverSpec,
    /// Queues, where the text says how many.
    pub queues: Option<u16>,
}

impl LinkSpec {
    /// Reads a link's text, as the `form` of its [`Kind`] and options behind it
    /// say; `role` counts where the text does not say.
    ///
    /// # Errors
    /// If there is no such driver, or what the driver finds wrong with its part.
    pub fn parse(text: &str, role: Role) -> Result<Self, BadValue> {
        let Some(read) = DriverSpec::read(text, role) else {
            return Err(known(text).err().unwrap_or_else(|| BadValue::new(expected())));
        };
        let driver = read.map_err(|why| BadValue::new(why.to_string()))?;
        // Drivers have a default; whether it was meant shows in the text only.
        let queues = text.split(',').skip(1).find_map(|part| part.strip_prefix("queues=")?.parse().ok());
        Ok(Self { driver, queues })
    }

    /// The kind, as it begins the text.
    pub fn kind(&self) -> &'static str {
        self.driver.kind().name
    }

    /// The link as a person would name it.
    pub fn name(&self) -> String {
        self.driver.name()
    }

    /// How many queues it has, where that is not for us to choose: as the text
    /// says, or its driver.
    pub fn wanted_queues(&self) -> Option<u16> {
        self.queues.or_else(|| self.driver.must_queues())
    }
}

/// A link's text, of a kind that there is; what else is wrong with it depends on
/// which side of it is meant.
///
/// # Errors
/// If there is no such kind.
pub fn known(text: &str) -> Result<String, BadValue> {
    let name = text.split_once(':').map(|(name, _)| name);
    match name {
        Some(name) if KINDS.iter().any(|kind| kind.name == name) => Ok(text.to_owned()),
        Some(name) => Err(BadValue::new(format!("there is no link of the kind {name}: {}", expected()))),
        None => Err(BadValue::new(expected())),
    }
}

fn expected() -> String {
    let examples = or(KINDS.iter().map(|kind| kind.example));
    format!("write {examples} (nearside links says what this machine has)")
}

/// The forms that a link's text may have.
pub fn forms() -> String {
    or(KINDS.iter().map(|kind| kind.form))
}

/// What is said of all drivers in a help text, a paragraph each.
pub fn help() -> String {
    KINDS.iter().map(|kind| kind.help).collect::<Vec<_>>().join("\n\n")
}

/// Why something else cannot be taken over by another process: what can be.
pub fn take_over_is_for() -> String {
    let kinds = KINDS.iter().filter(|kind| kind.hands_over).map(|kind| format!(" and {}", kind.name));
    format!("take-over is for kernel sockets{}", kinds.collect::<String>())
}

/// `a, b or c`.
fn or(words: impl Iterator<Item = &'static str>) -> String {
    let words: Vec<&str> = words.collect();
    match words.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => words.concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_text_goes_to_the_driver_that_it_begins_with() {
        let parse = |text: &str| LinkSpec::parse(text, Role::Server);
        for (text, kind, name, queues) in [
            ("memif:/run/x.sock,id=2", "memif", "memif:/run/x.sock,id=2", None),
            ("tap:near0,queues=2", "tap", "tap:near0", Some(2)),
            ("af_xdp:eth0,queues=auto", "af_xdp", "af_xdp:eth0", None),
            ("dpdk:net_null0,queues=3", "dpdk", "dpdk:net_null0", Some(3)),
        ] {
            let link = parse(text).unwrap();
            assert_eq!((link.kind(), &*link.name(), link.queues), (kind, name, queues), "{text}");
        }
        for (text, why) in [
            ("tape:x", "there is no link of the kind tape: write memif:/run/nearside.sock, "),
            ("eth0", "or dpdk:DEVICE (nearside links says what this machine has)"),
            ("tap", "tap:NAME"),
        ] {
            let told = parse(text).unwrap_err().to_string();
            assert!(told.contains(why), "{told}");
        }
    }

    #[test]
    fn what_is_handed_over_is_named() {
        assert_eq!(take_over_is_for(), "take-over is for kernel sockets and af_xdp");
    }

    #[test]
    fn no_driver_is_taken_for_another() {
        for (index, kind) in KINDS.iter().enumerate() {
            assert!(KINDS[..index].iter().all(|other| other.name != kind.name), "{}", kind.name);
            assert!(known(kind.example).is_ok() && kind.form.starts_with(&format!("{}:", kind.name)), "{}", kind.name);
        }
    }
}
