//! How large images may be, one by one and together.
//!
//! The pixels are read from the head of the image itself: no field of the request states them. An image whose head
//! cannot be read breaks no limit of size; the server has other words for it, which are not known here.

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde_json::{Map, Value};

use super::Rejection;
use super::schema::{invalid, object, only_members, string};

const MAX_ENCODED_LENGTH: usize = 10 * 1024 * 1024;
const MAX_EDGE: usize = 8000;
/// From more images than this on, [`MAX_EDGE_OF_MANY`] applies.
const FEW: usize = 20;
const MAX_EDGE_OF_MANY: usize = 2000;
const SMALL_WINDOW: u64 = 200_000;
const MAX_IN_SMALL_WINDOW: usize = 100;
const MAX_IN_LARGE_WINDOW: usize = 600;
/// Is a multiple of four, so that the cut falls between two groups, and leaves room for the metadata that JPEG files
/// carry before their dimensions.
const HEAD_LENGTH: usize = 512 * 1024;

const MEMBERS: &[&str] = &["cache_control", "source", "type"];
const MEDIA_TYPES: &[&str] = &["image/jpeg", "image/png", "image/gif", "image/webp"];
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

pub(super) struct Picture {
    path: String,
    /// In pixels; zero if unknown.
    longest_edge: usize,
}

pub(super) fn read(members: &Map<String, Value>, path: &str) -> Result<Picture, Rejection> {
    let path = format!("{path}.image");
    let source_path = format!("{path}.source");
    let source = members.get("source").ok_or_else(|| invalid(&source_path, "Field required"))?;
    let source = object(source, &source_path)?;
    let picture = match string(source, "type", &source_path)? {
        "base64" => read_encoded(source, format!("{source_path}.base64"))?,
        "url" | "file" => Picture { path: source_path, longest_edge: 0 },
        tag => {
            let reason = format!("Input tag '{tag}' found using 'type' does not match any of the expected tags");
            return Err(invalid(&source_path, &reason));
        }
    };
    only_members(members, MEMBERS, &path)?;
    Ok(picture)
}

fn read_encoded(source: &Map<String, Value>, path: String) -> Result<Picture, Rejection> {
    let data = string(source, "data", &path)?;
    if data.len() > MAX_ENCODED_LENGTH {
        return Err(invalid(&path, "image exceeds 10 MB maximum"));
    }
    let longest_edge = longest_edge(data);
    if longest_edge > MAX_EDGE {
        return Err(too_long(&path, &format!("size: {MAX_EDGE}")));
    }
    if !MEDIA_TYPES.contains(&string(source, "media_type", &path)?) {
        let reason = "Input should be 'image/jpeg', 'image/png', 'image/gif' or 'image/webp'";
        return Err(invalid(&format!("{path}.media_type"), reason));
    }
    Ok(Picture { path, longest_edge })
}

/// Checks what only all images of a request together can break.
pub(super) fn check_together(pictures: &[Picture], window: u64) -> Result<(), Rejection> {
    let found = pictures.len();
    if found > if window > SMALL_WINDOW { MAX_IN_LARGE_WINDOW } else { MAX_IN_SMALL_WINDOW } {
        return Err(Rejection::invalid(format!("Too many images: {found}")));
    }
    match pictures.iter().find(|picture| picture.longest_edge > MAX_EDGE_OF_MANY) {
        Some(picture) if found > FEW => {
            Err(too_long(&picture.path, &format!("size for many-image requests: {MAX_EDGE_OF_MANY}")))
        }
        _ => Ok(()),
    }
}

fn too_long(path: &str, limit: &str) -> Rejection {
    let reason = format!("At least one of the image dimensions exceed max allowed {limit} pixels");
    invalid(&format!("{path}.data"), &reason)
}

fn longest_edge(data: &str) -> usize {
    let head = data.as_bytes().get(..HEAD_LENGTH).unwrap_or(data.as_bytes());
    let Ok(head) = LENIENT.decode(head) else { return 0 };
    imagesize::blob_size(&head).map_or(0, |size| size.width.max(size.height))
}
