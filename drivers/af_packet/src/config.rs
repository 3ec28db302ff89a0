//! What a packet socket is opened for, and its one-line form.

use core::str::FromStr;
use driver::{BadConfig, StampedBy};

/// The longest name that Linux takes (IFNAMSIZ without its NUL).
const NAME_LIMIT: usize = 15;

/// How a link is opened: read from `af_packet:NAME`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config {
    /// The interface's name, 1 to 15 characters.
    pub name: String,
    /// By whom frames are stamped; `None`: they are not.
    pub stamped_by: Option<StampedBy>,
}

impl FromStr for Config {
    type Err = BadConfig;

    fn from_str(text: &str) -> Result<Self, BadConfig> {
        let Some(rest) = text.strip_prefix("af_packet:") else {
            return Err(BadConfig(format!("'{text}' is no packet socket; write af_packet:NAME")));
        };
        let (name, options) = rest.split_once(',').map_or((rest, None), |(name, options)| (name, Some(options)));
        let bad = |letter: char| letter.is_whitespace() || letter.is_control() || "/:%".contains(letter);
        if name.is_empty() || name.len() > NAME_LIMIT || name == "." || name == ".." || name.contains(bad) {
            return Err(BadConfig(format!(
                "'{name}' names no interface: 1 to {NAME_LIMIT} characters, no blank, slash, colon or percent sign"
            )));
        }
        match options {
            Some("queues=1") | None => Ok(Self { name: name.to_owned(), stamped_by: None }),
            Some(options) => {
                Err(BadConfig(format!("'{options}': a packet socket takes no options, and has one queue")))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_its_interface() {
        let read = |text: &str| text.parse::<Config>();
        assert_eq!(read("af_packet:eth0"), Ok(Config { name: "eth0".to_owned(), stamped_by: None }));
        for (text, why) in [
            ("tap:x", "no packet socket"),
            ("af_packet:", "names no interface"),
            ("af_packet:..", "names no interface"),
            ("af_packet:a/b", "names no interface"),
            ("af_packet:sixteencharacter", "names no interface"),
            ("af_packet:eth0,queues=2", "one queue"),
            ("af_packet:eth0,stamps=on", "takes no options"),
        ] {
            let told = read(text).expect_err(text).to_string();
            assert!(told.contains(why), "{text}: {told}");
        }
    }
}
