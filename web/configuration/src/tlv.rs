//! `$proxy_protocol_tlv_…`: what proxies say of their clients beside addresses.

/// What a proxy says beside addresses (PROXY protocol, version 2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TlvValue {
    /// By its type.
    Of(u8),
    /// Of the proxy's TLS, by its type within that.
    OfTls(u8),
    /// Whether the client's certificate was good, as a number.
    TlsVerify,
}

impl TlvValue {
    /// By what follows `proxy_protocol_tlv_` in its name; a number is hexadecimal.
    #[must_use]
    pub fn of(name: &[u8]) -> Option<Self> {
        let number = |text: &[u8]| {
            let digits = core::str::from_utf8(text.strip_prefix(b"0x")?).ok()?;
            u8::from_str_radix(digits, 16).ok()
        };
        if let Some(name) = name.strip_prefix(b"ssl_") {
            return Some(Self::OfTls(match name {
                b"verify" => return Some(Self::TlsVerify),
                b"version" => 0x21,
                b"cn" => 0x22,
                b"cipher" => 0x23,
                b"sig_alg" => 0x24,
                b"key_alg" => 0x25,
                other => number(other)?,
            }));
        }
        Some(Self::Of(match name {
            b"alpn" => 0x01,
            b"authority" => 0x02,
            b"unique_id" => 0x05,
            b"ssl" => 0x20,
            b"netns" => 0x30,
            other => number(other)?,
        }))
    }
}
