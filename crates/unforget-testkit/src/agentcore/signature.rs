//! AWS Signature Version 4, from the side that checks it.
//!
//! The path is encoded a second time before it is signed, as for every service but S3: `%2F` counts as `%252F`. A client that gets this
//! wrong works until the first id with a special character. A request that was signed too long ago, by a clock that is wrong, is refused as well.

use std::time::Duration;

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::{Digest as _, Sha256};
use unforget_core::encode;
use unforget_remote::agentcore::wire::SERVICE;

use super::checks::{Checked, Refusal};

/// How far a client's clock may be off.
const SKEW: Duration = Duration::from_secs(5 * 60);

/// Whose signatures are accepted.
#[derive(Clone)]
pub struct Keys {
    /// The name of the key.
    pub access: String,
    /// The key.
    pub secret: String,
    /// The region that requests must be signed for.
    pub region: String,
}

/// What is signed of a request.
#[derive(Debug)]
pub struct Signed<'r> {
    /// The method.
    pub method: &'r str,
    /// The path as it was sent.
    pub path: &'r str,
    /// The query as it was sent.
    pub query: &'r str,
    /// The signed headers, by their lower-case names, in order.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: &'r [u8],
}

impl Keys {
    /// The signature of a request, which must have its `x-amz-date` among the headers.
    pub fn sign(&self, request: &Signed<'_>) -> String {
        let header = |name: &str| {
            let found = request.headers.iter().find(|(header, _)| header == name);
            found.map(|(_, value)| value.as_str()).unwrap_or_default()
        };
        let date = header("x-amz-date");
        let day = date.get(..8).unwrap_or_default();
        let headers: String = request.headers.iter().map(|(name, value)| format!("{name}:{value}\n")).collect();
        let names: Vec<&str> = request.headers.iter().map(|(name, _)| name.as_str()).collect();
        let mut query: Vec<&str> = request.query.split('&').filter(|pair| !pair.is_empty()).collect();
        query.sort_unstable();
        let canonical = [
            request.method,
            &encoded_again(request.path),
            &query.join("&"),
            &headers,
            &names.join(";"),
            &encode::sha256_hex(request.body),
        ]
        .join("\n");
        let scope = format!("{day}/{}/{SERVICE}/aws4_request", self.region);
        let text = format!("AWS4-HMAC-SHA256\n{date}\n{scope}\n{}", encode::hex(&Sha256::digest(canonical)));
        let mut key = format!("AWS4{}", self.secret).into_bytes();
        for part in [day, &self.region, SERVICE, "aws4_request"] {
            key = mac(&key, part.as_bytes());
        }
        encode::hex(&mac(&key, text.as_bytes()))
    }

    /// Checks a request that arrived now.
    pub(super) fn check(
        &self,
        request: &mut Signed<'_>,
        authorization: Option<&str>,
        now: Duration,
        all: &axum::http::HeaderMap,
    ) -> Checked<()> {
        let refused = |name: &str, message: String| Err(Refusal::new(403, name, message));
        let Some(fields) = authorization.and_then(|text| text.strip_prefix("AWS4-HMAC-SHA256 ")) else {
            return refused("MissingAuthenticationTokenException", "Missing Authentication Token".to_owned());
        };
        let field = |name: &str| {
            let mut fields = fields.split(',').map(str::trim);
            fields.find_map(|field| field.strip_prefix(name)?.strip_prefix('=')).unwrap_or_default()
        };
        let date = all.get("x-amz-date").and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned();
        let scope = format!("{}/{}/{SERVICE}/aws4_request", date.get(..8).unwrap_or_default(), self.region);
        let credential = field("Credential");
        let Some((access, signed_scope)) = credential.split_once('/') else {
            return refused("IncompleteSignatureException", "Authorization header requires 'Credential'".to_owned());
        };
        if access != self.access {
            let text = "The security token included in the request is invalid.";
            return refused("UnrecognizedClientException", text.to_owned());
        }
        if signed_scope != scope {
            return refused("InvalidSignatureException", format!("Credential should be scoped to {scope}"));
        }
        let Some(signed_at) = seconds_of(&date).map(Duration::from_secs) else {
            return refused("IncompleteSignatureException", "Date must be in ISO-8601 'basic format'".to_owned());
        };
        let off = if signed_at < now { "expired" } else { "not yet current" };
        if signed_at.abs_diff(now) > SKEW {
            let text = format!("Signature {off}: {date} is more than 5 min. away from {} s", now.as_secs());
            return refused("InvalidSignatureException", text);
        }
        for name in field("SignedHeaders").split(';') {
            let values = all.get_all(name).iter().filter_map(|value| value.to_str().ok());
            let value = values.map(|value| value.split_whitespace().collect::<Vec<_>>().join(" "));
            request.headers.push((name.to_owned(), value.collect::<Vec<_>>().join(",")));
        }
        if !request.headers.iter().any(|(name, _)| name == "host") {
            return refused("InvalidSignatureException", "'Host' must be a 'SignedHeader'".to_owned());
        }
        if self.sign(request) != field("Signature") {
            let text = "The request signature we calculated does not match the signature you provided. \
                        Check your AWS Secret Access Key and signing method.";
            return refused("InvalidSignatureException", text.to_owned());
        }
        Ok(())
    }
}

fn encoded_again(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    for byte in path.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'_' | b'.' | b'~' => out.push(char::from(byte)),
            other => out.push_str(&format!("%{other:02X}")),
        }
    }
    out
}

fn mac(key: &[u8], text: &[u8]) -> Vec<u8> {
    // A key may have any length.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key) else { return Vec::new() };
    mac.update(text);
    mac.finalize().into_bytes().to_vec()
}

/// Seconds since 1970 of `20261115T182459Z`.
fn seconds_of(date: &str) -> Option<u64> {
    let (day, time) = date.strip_suffix('Z')?.split_once('T')?;
    let number = |text: &str, from: usize, to: usize| text.get(from..to)?.parse::<u64>().ok();
    let (year, month, day) = (number(day, 0, 4)?, number(day, 4, 6)?, number(day, 6, 8)?);
    let (hour, minute, second) = (number(time, 0, 2)?, number(time, 2, 4)?, number(time, 4, 6)?);
    if year < 1970 || !(1..=12).contains(&month) {
        return None;
    }
    // Years begin in March, so that the day that is sometimes missing is the last one.
    let (shifted, index) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = shifted * 365 + shifted / 4 - shifted / 100 + shifted / 400 + (index * 153 + 2) / 5 + day;
    Some((days.checked_sub(719_469)? * 24 + hour) * 3600 + minute * 60 + second)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_read() {
        assert_eq!(seconds_of("19700101T000000Z"), Some(0));
        assert_eq!(seconds_of("20000229T235959Z"), Some(951_868_799));
        assert_eq!(seconds_of("20261115T182459Z"), Some(1_794_767_099));
        for wrong in ["", "2026", "20261115T182459", "20261315T182459Z", "x0261115T182459Z"] {
            assert_eq!(seconds_of(wrong), None);
        }
    }
}
