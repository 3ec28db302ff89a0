//! From a handshake to what seals and opens the records behind it.

use crate::early::EarlyLayer;
use crate::secured::{Cipher, Direction, Secured, Session, Version};
use record::{
    Afterwards, Established, KeyedWay, RecordCipher, RecordKeys, RecordLayer, TlsSide, TlsVersion, TrafficSecret,
};
use seal::{Layer, MAX_PLAINTEXT};
use std::sync::Arc;

impl Cipher {
    /// The record layer's name for it.
    pub(crate) const fn of_records(self) -> RecordCipher {
        match self {
            Self::Aes128Gcm => RecordCipher::Aes128Gcm,
            Self::Aes256Gcm => RecordCipher::Aes256Gcm,
            Self::ChaCha20Poly1305 => RecordCipher::ChaCha20Poly1305,
        }
    }
}

impl Secured {
    /// What secures the connection from here on, and what is told of that; `None` where keys
    /// are not as long as their ciphers have them.
    #[must_use]
    pub fn into_layer(self) -> Option<(Box<dyn Layer>, Session)> {
        wiping::during(|| self.make_layer())
    }

    fn make_layer(self) -> Option<(Box<dyn Layer>, Session)> {
        let Self { transmit, receive, cipher, session, kernel, early, .. } = self;
        let cipher = cipher.of_records();
        let afterwards = match (&transmit.secret, &receive.secret) {
            (Some(sends), Some(receives)) => Afterwards::Secrets {
                sends: TrafficSecret::new(cipher, sends)?,
                receives: TrafficSecret::new(cipher, receives)?,
            },
            _ => Afterwards::Nothing,
        };
        let way = |direction: &Direction| {
            let keys = match (&early, &direction.secret) {
                (Some(_), Some(secret)) => TrafficSecret::new(cipher, secret)?.keys()?,
                _ => RecordKeys::new(cipher, &direction.key, *direction.iv)?,
            };
            Some(KeyedWay { keys, number: direction.sequence })
        };
        let established = Established {
            version: match session.version {
                Version::Tls12 => TlsVersion::V12,
                Version::Tls13 => TlsVersion::V13,
            },
            side: TlsSide::Server,
            sends: way(&transmit)?,
            receives: way(&receive)?,
            afterwards,
            most: MAX_PLAINTEXT,
        };
        let records = RecordLayer::new(established).handing_over(kernel);
        let layer: Box<dyn Layer> = match (early, &session.early) {
            (Some(acceptor), Some(over)) => Box::new(EarlyLayer::new(acceptor, records, Arc::clone(over))),
            _ => Box::new(records),
        };
        Some((layer, session))
    }
}
