//! Bytes and attributes of a file, as a journal keeps them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;
use sysroot::FileAttributes;

/// A file's bytes in JSON: as text where they are, to be read by people.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Bytes {
    Text(String),
    Base64(String),
}

/// [`FileAttributes`] in JSON.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct KeptAttributes {
    mode: u32,
    owner: u32,
    group: u32,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    labels: BTreeMap<String, Bytes>,
}

impl Bytes {
    pub fn of(bytes: &[u8]) -> Self {
        match core::str::from_utf8(bytes) {
            Ok(text) => Self::Text(text.to_owned()),
            Err(_) => Self::Base64(STANDARD.encode(bytes)),
        }
    }

    /// `None`: it is no journal of ours that says so.
    pub fn bytes(&self) -> Option<Cow<'_, [u8]>> {
        match self {
            Self::Text(text) => Some(Cow::Borrowed(text.as_bytes())),
            Self::Base64(text) => STANDARD.decode(text).ok().map(Cow::Owned),
        }
    }
}

impl KeptAttributes {
    pub fn of(attributes: &FileAttributes) -> Self {
        let labels = attributes.labels.iter().map(|(name, value)| (name.clone(), Bytes::of(value))).collect();
        Self { mode: attributes.mode, owner: attributes.owner, group: attributes.group, labels }
    }

    /// `None`: it is no journal of ours that says so.
    pub fn attributes(&self) -> Option<FileAttributes> {
        let labels = self.labels.iter().map(|(name, value)| Some((name.clone(), value.bytes()?.into_owned())));
        Some(FileAttributes {
            mode: self.mode & 0o7777,
            owner: self.owner,
            group: self.group,
            labels: labels.collect::<Option<_>>()?,
        })
    }
}
