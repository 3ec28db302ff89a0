//! How content is sent, and how often each byte of it passes memory.

/// A pass of each byte sent over memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MemoryPass {
    /// The disk's controller writes it.
    DiskWrite,
    /// The cipher, or what copies in its place, reads it.
    CipherRead,
    /// And writes it elsewhere.
    CipherWrite,
    /// The NIC reads it.
    NicRead,
}

impl MemoryPass {
    /// In the order in which content takes them.
    pub const ALL: [Self; 4] = [Self::DiskWrite, Self::CipherRead, Self::CipherWrite, Self::NicRead];

    /// What it is called; without TLS what the cipher does is a copy.
    #[must_use]
    pub const fn name(self, tls: bool) -> &'static str {
        match (self, tls) {
            (Self::DiskWrite, _) => "disk write",
            (Self::CipherRead, true) => "cipher read",
            (Self::CipherWrite, true) => "cipher write",
            (Self::CipherRead, false) => "copy read",
            (Self::CipherWrite, false) => "copy write",
            (Self::NicRead, _) => "NIC read",
        }
    }

    /// Whether memory is written, rather than read.
    #[must_use]
    pub const fn writes(self) -> bool {
        matches!(self, Self::DiskWrite | Self::CipherWrite)
    }
}

/// How content gets from memory to the NIC.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ContentWay {
    /// sendfile, the kernel's TLS into pages of its own.
    KernelTls,
    /// Sealed, or copied, by us into the slot of the NIC's ring.
    IntoSlot,
    /// sendfile; the NIC seals, or nobody does.
    Sendfile,
}

impl ContentWay {
    /// Those that there are, with TLS and without.
    #[must_use]
    pub const fn all(tls: bool) -> &'static [Self] {
        if tls { &[Self::KernelTls, Self::IntoSlot, Self::Sendfile] } else { &[Self::IntoSlot, Self::Sendfile] }
    }

    /// What it is called.
    #[must_use]
    pub const fn name(self, tls: bool) -> &'static str {
        match (self, tls) {
            (Self::KernelTls, _) => "sendfile, TLS by the kernel",
            (Self::IntoSlot, true) => "sealed into the slot",
            (Self::IntoSlot, false) => "copied into the slot",
            (Self::Sendfile, true) => "sendfile, TLS by the NIC",
            (Self::Sendfile, false) => "sendfile",
        }
    }

    /// As an option has it.
    #[must_use]
    pub fn of_word(word: &str) -> Option<Self> {
        match word {
            "kernel" => Some(Self::KernelTls),
            "slot" => Some(Self::IntoSlot),
            "nic" => Some(Self::Sendfile),
            _ => None,
        }
    }

    /// The passes of each byte; without a disk content is in memory already.
    pub fn passes(self, disk: bool) -> impl Iterator<Item = MemoryPass> {
        MemoryPass::ALL.into_iter().filter(move |pass| match pass {
            MemoryPass::DiskWrite => disk,
            MemoryPass::CipherRead | MemoryPass::CipherWrite => self != Self::Sendfile,
            MemoryPass::NicRead => true,
        })
    }

    /// Whether a pass stays in the cache while the rings are small enough for it: what was sealed
    /// into a slot is read by the NIC before it is driven out.
    #[must_use]
    pub const fn in_cache(self, pass: MemoryPass) -> bool {
        matches!((self, pass), (Self::IntoSlot, MemoryPass::CipherWrite | MemoryPass::NicRead))
    }
}
