//! Pages for statuses, as nginx has them.

/// The text of a status, for its page; none for those without a page.
pub const fn title(status: u16) -> Option<&'static str> {
    Some(match status {
        301 => "301 Moved Permanently",
        302 => "302 Found",
        303 => "303 See Other",
        307 => "307 Temporary Redirect",
        308 => "308 Permanent Redirect",
        400 => "400 Bad Request",
        401 => "401 Authorization Required",
        402 => "402 Payment Required",
        403 => "403 Forbidden",
        404 => "404 Not Found",
        405 => "405 Not Allowed",
        406 => "406 Not Acceptable",
        408 => "408 Request Time-out",
        409 => "409 Conflict",
        410 => "410 Gone",
        411 => "411 Length Required",
        412 => "412 Precondition Failed",
        413 => "413 Request Entity Too Large",
        414 => "414 Request-URI Too Large",
        415 => "415 Unsupported Media Type",
        416 => "416 Requested Range Not Satisfiable",
        421 => "421 Misdirected Request",
        429 => "429 Too Many Requests",
        500 => "500 Internal Server Error",
        501 => "501 Not Implemented",
        502 => "502 Bad Gateway",
        503 => "503 Service Temporarily Unavailable",
        504 => "504 Gateway Time-out",
        505 => "505 HTTP Version Not Supported",
        507 => "507 Insufficient Storage",
        _ => return None,
    })
}

/// Statuses that are told as 400: their titles, and what stands below.
const fn special(status: u16) -> Option<(&'static str, &'static str)> {
    Some(match status {
        494 => ("400 Request Header Or Cookie Too Large", "<center>Request Header Or Cookie Too Large</center>\r\n"),
        495 => ("400 The SSL certificate error", "<center>The SSL certificate error</center>\r\n"),
        496 => {
            ("400 No required SSL certificate was sent", "<center>No required SSL certificate was sent</center>\r\n")
        }
        497 => (
            "400 The plain HTTP request was sent to HTTPS port",
            "<center>The plain HTTP request was sent to HTTPS port</center>\r\n",
        ),
        _ => return None,
    })
}

/// What keeps old browsers from showing pages of their own in place of short ones
/// (`msie_padding`).
const PADDING: &str = "<!-- a padding to disable MSIE and Chrome friendly error page -->\r\n";

/// The page of a status; empty for those without one.
pub fn page(status: u16, padded: bool) -> Vec<u8> {
    let (title, heading, more) = match (title(status), special(status)) {
        (Some(title), _) => (title, title, ""),
        (None, Some((title, more))) => (title, "400 Bad Request", more),
        (None, None) => return Vec::new(),
    };
    let mut page = format!(
        "<html>\r\n<head><title>{title}</title></head>\r\n<body>\r\n<center><h1>{heading}</h1></center>\r\n{more}\
         <hr><center>nearside</center>\r\n</body>\r\n</html>\r\n"
    );
    if padded {
        (0..6).for_each(|_| page.push_str(PADDING));
    }
    page.into_bytes()
}
