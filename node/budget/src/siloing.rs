//! What keeps work in one domain, and what splits it over ports.

/// What keeps a connection's work in one domain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Siloing {
    /// Nothing does.
    No,
    /// Memory, cores and port are those of the domain that a connection's packets come to.
    Network,
    /// They are those of the domain that the content's disk is in. A model only.
    Disk,
}

impl Siloing {
    /// All, as they are compared.
    pub const ALL: [Self; 3] = [Self::No, Self::Network, Self::Disk];

    /// As an option has it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::No => "no",
            Self::Network => "network",
            Self::Disk => "disk",
        }
    }

    /// Why nobody serves in this way, if so.
    #[must_use]
    pub const fn why_not(self) -> Option<&'static str> {
        match self {
            Self::Disk => Some(
                "a model only, which cannot be served: which content is asked for is known after the connection has \
                 come to a domain; the partner of the aggregation (LACP) chose the port by its own hash; and a client \
                 asks for the next content on the same connection",
            ),
            _ => None,
        }
    }
}

/// How traffic is split over several ports.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum PortSplit {
    /// Evenly, as an aggregation's hash of flows does.
    #[default]
    Even,
    /// By the ports' rates, as with weights that are these.
    Rate,
}

impl PortSplit {
    /// As an option has it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Even => "even",
            Self::Rate => "rate",
        }
    }
}
