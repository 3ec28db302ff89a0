//! Status codes.

/// A status code (RFC 9110 section 15).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Status(u16);

macro_rules! statuses {
    ($($name:ident $code:literal $reason:literal;)*) => {
        impl Status {
            $(
                #[doc = concat!($code, " ", $reason)]
                pub const $name: Self = Self($code);
            )*

            /// The reason phrase; empty for a code without an entry, which
            /// RFC 9112 section 4 allows.
            #[must_use]
            pub const fn reason(self) -> &'static str {
                match self.0 {
                    $($code => $reason,)*
                    _ => "",
                }
            }

            /// The status line, CR LF included, or `None` for a code without
            /// an entry.
            #[must_use]
            pub const fn line(self) -> Option<&'static [u8]> {
                Some(match self.0 {
                    $($code => concat!("HTTP/1.1 ", $code, " ", $reason, "\r\n").as_bytes(),)*
                    _ => return None,
                })
            }
        }
    };
}

statuses! {
    CONTINUE 100 "Continue";
    SWITCHING_PROTOCOLS 101 "Switching Protocols";
    EARLY_HINTS 103 "Early Hints";
    OK 200 "OK";
    CREATED 201 "Created";
    ACCEPTED 202 "Accepted";
    NO_CONTENT 204 "No Content";
    RESET_CONTENT 205 "Reset Content";
    PARTIAL_CONTENT 206 "Partial Content";
    MOVED_PERMANENTLY 301 "Moved Permanently";
    FOUND 302 "Found";
    SEE_OTHER 303 "See Other";
    NOT_MODIFIED 304 "Not Modified";
    TEMPORARY_REDIRECT 307 "Temporary Redirect";
    PERMANENT_REDIRECT 308 "Permanent Redirect";
    BAD_REQUEST 400 "Bad Request";
    UNAUTHORIZED 401 "Unauthorized";
    FORBIDDEN 403 "Forbidden";
    NOT_FOUND 404 "Not Found";
    METHOD_NOT_ALLOWED 405 "Method Not Allowed";
    NOT_ACCEPTABLE 406 "Not Acceptable";
    REQUEST_TIMEOUT 408 "Request Timeout";
    CONFLICT 409 "Conflict";
    GONE 410 "Gone";
    LENGTH_REQUIRED 411 "Length Required";
    PRECONDITION_FAILED 412 "Precondition Failed";
    CONTENT_TOO_LARGE 413 "Content Too Large";
    URI_TOO_LONG 414 "URI Too Long";
    UNSUPPORTED_MEDIA_TYPE 415 "Unsupported Media Type";
    RANGE_NOT_SATISFIABLE 416 "Range Not Satisfiable";
    EXPECTATION_FAILED 417 "Expectation Failed";
    MISDIRECTED_REQUEST 421 "Misdirected Request";
    UPGRADE_REQUIRED 426 "Upgrade Required";
    TOO_MANY_REQUESTS 429 "Too Many Requests";
    REQUEST_HEADER_FIELDS_TOO_LARGE 431 "Request Header Fields Too Large";
    INTERNAL_SERVER_ERROR 500 "Internal Server Error";
    NOT_IMPLEMENTED 501 "Not Implemented";
    BAD_GATEWAY 502 "Bad Gateway";
    SERVICE_UNAVAILABLE 503 "Service Unavailable";
    GATEWAY_TIMEOUT 504 "Gateway Timeout";
    HTTP_VERSION_NOT_SUPPORTED 505 "HTTP Version Not Supported";
}

impl Status {
    /// The status with this code, if it is in 100..=599 (RFC 9110
    /// section 15: other codes are invalid).
    #[inline]
    #[must_use]
    pub const fn from_code(code: u16) -> Option<Self> {
        if code >= 100 && code <= 599 { Some(Self(code)) } else { None }
    }

    /// The code.
    #[inline]
    #[must_use]
    pub const fn code(self) -> u16 {
        self.0
    }

    /// Whether more responses to the same request follow: 1xx except 101
    /// (RFC 9110 section 15.2).
    #[inline]
    #[must_use]
    pub const fn is_interim(self) -> bool {
        self.0 < 200 && self.0 != 101
    }

    /// Whether a response with this status never has a body: 1xx, 204, 304
    /// (RFC 9112 section 6.3, rule 1).
    #[inline]
    #[must_use]
    pub const fn is_bodiless(self) -> bool {
        self.0 < 200 || self.0 == 204 || self.0 == 304
    }
}
