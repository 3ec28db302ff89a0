//! Tickets (RFC 5077, RFC 8446 section 4.6.1): sessions that clients keep for us.
//!
//! A ticket is a key's name, a number that is used once, and the session under AES-256-GCM
//! with a key that was derived for this ticket alone. So a key that stands in a file, the
//! same on many machines and for months, never meets the bound on random nonces that
//! AES-GCM has. What the session is bound to, the certificates of its server, and which clients
//! that verifies, is authenticated with it: another server does not open it
//! (CVE-2025-23419).

#[cfg(test)]
mod tests;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Salt};
use aws_lc_rs::rand;
use rustls::pki_types::UnixTime;
use rustls::server::ProducesTickets;
use std::sync::{Arc, PoisonError, RwLock};
use zeroize::Zeroizing;

const NAME: usize = 16;
const SEED: usize = 32;
const TAG: usize = 16;
/// Seconds at which a ticket was made, before the session.
const MADE: usize = 8;

/// The longest ticket that is opened; one of ours is shorter.
const TICKET_MAX: usize = 16 << 10;

/// Seconds for which a key of our own makes tickets. It opens them for as long again, and
/// as long as they last.
const PERIOD: u64 = 3_600;

/// A key, by its name.
#[derive(Clone)]
struct TicketKey {
    name: [u8; NAME],
    secret: Zeroizing<Vec<u8>>,
    /// The unix second that it was made in; none of a file.
    made: Option<u64>,
}

impl core::fmt::Debug for TicketKey {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("TicketKey").field("made", &self.made).finish_non_exhaustive()
    }
}

/// Keys of tickets: the first makes them, all open them. Shared by all silos, and by all servers
/// that have no files of their own.
#[derive(Debug)]
pub struct TicketKeys {
    keys: RwLock<Vec<TicketKey>>,
    rotates: bool,
}

/// A file of a ticket key has another length than 48 or 80 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TicketKeyLength;

impl TicketKeys {
    /// Keys of our own, which change by themselves.
    #[must_use]
    pub fn rotating() -> Self {
        Self { keys: RwLock::new(Vec::new()), rotates: true }
    }

    /// The process's own, for all servers that have no files: they outlive reloads.
    #[must_use]
    pub fn of_process() -> Arc<Self> {
        static KEYS: std::sync::OnceLock<Arc<TicketKeys>> = std::sync::OnceLock::new();
        Arc::clone(KEYS.get_or_init(|| Arc::new(Self::rotating())))
    }

    /// Those of files (`ssl_session_ticket_key`), 48 or 80 bytes each: the first makes tickets. The
    /// tickets are not nginx's: its servers and ours do not open each other's.
    ///
    /// # Errors
    /// One has another length.
    pub fn of_files(files: &[Zeroizing<Vec<u8>>]) -> Result<Self, TicketKeyLength> {
        let key = |file: &Zeroizing<Vec<u8>>| match file.len() {
            48 | 80 => {
                let (name, secret) = file.split_at(NAME);
                let name = name.try_into().map_err(|_| TicketKeyLength)?;
                Ok(TicketKey { name, secret: Zeroizing::new(secret.to_vec()), made: None })
            }
            _ => Err(TicketKeyLength),
        };
        let keys = files.iter().map(key).collect::<Result<_, _>>()?;
        Ok(Self { keys: RwLock::new(keys), rotates: false })
    }

    /// The key that makes tickets.
    fn current(&self, now: u64, lifetime: u64) -> Option<TicketKey> {
        let is_current = |key: &&TicketKey| key.made.is_none_or(|made| now.wrapping_sub(made) < PERIOD);
        {
            let keys = self.keys.read().unwrap_or_else(PoisonError::into_inner);
            if let Some(key) = keys.first().filter(is_current) {
                return Some(key.clone());
            }
        }
        if !self.rotates {
            return None;
        }
        let mut keys = self.keys.write().unwrap_or_else(PoisonError::into_inner);
        // Another thread may have been faster.
        if let Some(key) = keys.first().filter(is_current) {
            return Some(key.clone());
        }
        let mut key = TicketKey { name: [0; NAME], secret: Zeroizing::new(vec![0; SEED]), made: Some(now) };
        rand::fill(&mut key.name).ok()?;
        rand::fill(&mut key.secret).ok()?;
        keys.retain(|old| old.made.is_some_and(|made| now.saturating_sub(made) < PERIOD + lifetime));
        keys.insert(0, key.clone());
        Some(key)
    }

    /// The key of this name.
    fn named(&self, name: &[u8]) -> Option<TicketKey> {
        let keys = self.keys.read().unwrap_or_else(PoisonError::into_inner);
        keys.iter().find(|key| key.name == name).cloned()
    }
}

/// How long a derived key is.
struct Length;

impl KeyType for Length {
    fn len(&self) -> usize {
        32
    }
}

/// Makes and opens the tickets of one server.
pub(crate) struct Ticketer {
    pub keys: Arc<TicketKeys>,
    /// What its sessions are bound to.
    pub binding: [u8; 32],
    /// Seconds that they last.
    pub lifetime: u32,
}

impl core::fmt::Debug for Ticketer {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Ticketer").field("lifetime", &self.lifetime).finish_non_exhaustive()
    }
}

impl Ticketer {
    /// The key for one ticket, which is used once: its nonce is zero.
    fn key(&self, key: &TicketKey, seed: &[u8]) -> Option<LessSafeKey> {
        let derived = Salt::new(HKDF_SHA256, seed).extract(&key.secret);
        let info = [&b"nearside ticket"[..], &self.binding];
        let mut bytes = Zeroizing::new([0; 32]);
        derived.expand(&info, Length).ok()?.fill(&mut *bytes).ok()?;
        Some(LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &*bytes).ok()?))
    }

    fn seal(&self, session: &[u8], now: u64) -> Option<Vec<u8>> {
        let key = self.keys.current(now, self.lifetime.into())?;
        let mut ticket = Vec::with_capacity(NAME + SEED + MADE + session.len() + TAG);
        ticket.extend_from_slice(&key.name);
        ticket.resize(NAME + SEED, 0);
        rand::fill(&mut ticket[NAME..]).ok()?;
        let one = self.key(&key, &ticket[NAME..])?;
        let mut text = Zeroizing::new([&now.to_be_bytes()[..], session].concat());
        let nonce = Nonce::assume_unique_for_key([0; 12]);
        let tag = one.seal_in_place_separate_tag(nonce, Aad::from(&ticket[..]), &mut text[..]).ok()?;
        ticket.extend_from_slice(&text);
        ticket.extend_from_slice(tag.as_ref());
        Some(ticket)
    }

    fn open(&self, ticket: &[u8], now: u64) -> Option<Vec<u8>> {
        if ticket.len() > TICKET_MAX {
            return None;
        }
        let (head, sealed) = ticket.split_at_checked(NAME + SEED)?;
        let key = self.keys.named(&head[..NAME])?;
        let one = self.key(&key, &head[NAME..])?;
        let mut text = Zeroizing::new(sealed.to_vec());
        let nonce = Nonce::assume_unique_for_key([0; 12]);
        let text = one.open_in_place(nonce, Aad::from(head), &mut text[..]).ok()?;
        let (made, session) = text.split_at_checked(MADE)?;
        let made = u64::from_be_bytes(made.try_into().ok()?);
        // A clock that was set back makes none last longer.
        (now.saturating_sub(made) < u64::from(self.lifetime) && made <= now + 60).then(|| session.to_vec())
    }
}

impl ProducesTickets for Ticketer {
    fn enabled(&self) -> bool {
        true
    }

    fn lifetime(&self) -> u32 {
        self.lifetime
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        self.seal(plain, unix_second())
    }

    fn decrypt(&self, cipher: &[u8]) -> Option<Vec<u8>> {
        self.open(cipher, unix_second())
    }
}

/// The time by the wall clock, which rustls asks for, too.
pub(crate) fn unix_second() -> u64 {
    UnixTime::now().as_secs()
}
