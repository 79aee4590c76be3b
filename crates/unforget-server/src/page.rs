//! The page at `/`: sessions for people, in a browser.
//!
//! It is one document that is all there is: style, script and icon are in it, and it loads nothing, from here or from elsewhere. So it needs no build, no
//! network and one round trip, and its policy can name what may run by its hash: this script, this style, and nothing else, whatever a conversation
//! holds. With Trusted Types no text becomes markup either. It is made in `web/` and is the same for everybody: it holds nobody's data, which it asks for
//! as any client does (`/v1`, `/ws`), and that is why nobody has to say who they are to see it.
//!
//! Both texts are put in as they are. What would end them early (`</script`) is for the build to escape, and a test sees to it.

use std::io::Write as _;
use std::sync::LazyLock;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, IF_NONE_MATCH, VARY,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use flate2::Compression;
use flate2::write::GzEncoder;
use sha2::{Digest as _, Sha256};

use crate::door;

const TEMPLATE: &str = include_str!("../../../web/dist/page.html");
const STYLE: &str = include_str!("../../../web/dist/page.css");
const SCRIPT: &str = include_str!("../../../web/dist/page.js");
/// Where they go.
const STYLE_HERE: &str = "<!--style-->";
const SCRIPT_HERE: &str = "<!--script-->";

const CROSS_ORIGIN_OPENER_POLICY: HeaderName = HeaderName::from_static("cross-origin-opener-policy");
const PERMISSIONS_POLICY: HeaderName = HeaderName::from_static("permissions-policy");
/// What a browser could do and the page has no use for. Copying is what it does.
const PERMISSIONS: HeaderValue = HeaderValue::from_static(
    "accelerometer=(), autoplay=(), camera=(), clipboard-read=(), clipboard-write=(self), display-capture=(), \
     encrypted-media=(), fullscreen=(), gamepad=(), geolocation=(), gyroscope=(), hid=(), idle-detection=(), local-fonts=(), \
     magnetometer=(), microphone=(), midi=(), payment=(), picture-in-picture=(), publickey-credentials-create=(), \
     publickey-credentials-get=(), screen-wake-lock=(), serial=(), storage-access=(), sync-xhr=(), usb=(), \
     window-management=(), xr-spatial-tracking=()",
);

static DOCUMENT: LazyLock<Document> = LazyLock::new(|| Document::new(TEMPLATE, STYLE, SCRIPT));

/// The page as it is sent.
struct Document {
    plain: Form,
    /// None if it could not be made, which costs bytes and nothing else.
    gzip: Option<Form>,
    /// What it may do, but for where it may connect to.
    policy: String,
}

/// The page in one of its forms. Their tags differ, as their bytes do.
struct Form {
    bytes: Bytes,
    tag: String,
}

impl Document {
    fn new(template: &str, style: &str, script: &str) -> Self {
        let text = template.replacen(SCRIPT_HERE, &format!("<script type=\"module\">{script}</script>"), 1).replacen(
            STYLE_HERE,
            &format!("<style>{style}</style>"),
            1,
        );
        let [style, script] = [style, script].map(|text| format!("'sha256-{}'", STANDARD.encode(Sha256::digest(text))));
        let policy = format!(
            "default-src 'none'; script-src {script}; style-src {style}; img-src data: blob:; base-uri 'none'; form-action 'none'; \
             frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
        );
        // A page that is kept is kept with its policy: another policy makes another page.
        let digest = Sha256::new().chain_update(&policy).chain_update(&text).finalize();
        let digest = URL_SAFE_NO_PAD.encode(&digest[..16]);
        let gzip = match compressed(text.as_bytes()) {
            Ok(bytes) => Some(Form { bytes: bytes.into(), tag: format!("\"{digest}-gzip\"") }),
            Err(error) => {
                tracing::warn!(%error, "the page is sent as it is");
                None
            }
        };
        Self { plain: Form { bytes: text.into(), tag: format!("\"{digest}\"") }, gzip, policy }
    }

    /// The policy, for a page that is seen under that name. A browser that does not count a WebSocket to the same host as `'self'` (Safari before 15.4)
    /// has to be told.
    fn policy(&self, host: Option<String>) -> String {
        let sockets = host.map(|host| format!(" ws://{host} wss://{host}")).unwrap_or_default();
        format!("{}; connect-src 'self'{sockets}", self.policy)
    }
}

fn compressed(bytes: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes)?;
    encoder.finish()
}

/// The place of the page.
pub(crate) fn routes<S: Clone + Send + Sync + 'static>() -> Router<S> {
    Router::new().route(door::PAGE, get(page))
}

async fn page(request: Request) -> Response {
    let document = &*DOCUMENT;
    let headers = request.headers();
    let gzip = document.gzip.as_ref().filter(|_| takes_gzip(headers));
    let form = gzip.unwrap_or(&document.plain);
    let mut response = match has(headers, &form.tag) {
        true => StatusCode::NOT_MODIFIED.into_response(),
        false => Body::from(form.bytes.clone()).into_response(),
    };
    let told = response.headers_mut();
    if gzip.is_some() {
        told.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    for (name, text) in
        [(ETAG, form.tag.clone()), (CONTENT_SECURITY_POLICY, document.policy(door::host(request.uri(), headers)))]
    {
        match HeaderValue::from_str(&text) {
            Ok(value) => {
                told.insert(name, value);
            }
            // Without its policy it would be answered with the one of everything else, and show nothing.
            Err(error) => tracing::error!(%error, %name, "a header of the page"),
        }
    }
    told.insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    told.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    told.insert(VARY, HeaderValue::from_static("accept-encoding"));
    told.insert(CROSS_ORIGIN_OPENER_POLICY, HeaderValue::from_static("same-origin"));
    told.insert(PERMISSIONS_POLICY, PERMISSIONS);
    response
}

/// The words of a header that is a list.
fn words(headers: &HeaderMap, name: HeaderName) -> impl Iterator<Item = &str> {
    let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(str::trim)
}

fn takes_gzip(headers: &HeaderMap) -> bool {
    words(headers, ACCEPT_ENCODING).any(|word| {
        let mut parts = word.split(';').map(str::trim);
        let is_gzip = parts.next().is_some_and(|name| name.eq_ignore_ascii_case("gzip"));
        let weight = parts.find_map(|part| part.strip_prefix("q=").or(part.strip_prefix("Q=")));
        is_gzip && weight.is_none_or(|weight| weight.parse::<f32>().is_ok_and(|weight| weight > 0.0))
    })
}

/// Whether a browser has this form already.
fn has(headers: &HeaderMap, tag: &str) -> bool {
    words(headers, IF_NONE_MATCH).any(|known| known == "*" || known.strip_prefix("W/").unwrap_or(known) == tag)
}

#[cfg(test)]
mod tests;
