//! What S3 says of objects: the heads of answers, and the pages of `ListObjectsV2`.

use std::borrow::Cow;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bstr::ByteSlice as _;
use percent_encoding::percent_decode_str;
use reqwest::header::{CONTENT_LENGTH, CONTENT_RANGE, ETAG, HeaderMap, LAST_MODIFIED};
use serde::Deserialize;

use crate::{Entry, Name, Tier, Version};

/// One page of a listing.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Listing {
    #[serde(default)]
    encoding_type: String,
    #[serde(default)]
    contents: Vec<Content>,
    #[serde(default)]
    common_prefixes: Vec<CommonPrefix>,
    #[serde(default)]
    is_truncated: bool,
    #[serde(default)]
    next_continuation_token: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Content {
    key: String,
    #[serde(default)]
    size: Option<u64>,
    #[serde(default, rename = "ETag")]
    etag: Option<String>,
    #[serde(default)]
    last_modified: Option<String>,
    #[serde(default)]
    storage_class: Option<String>,
    #[serde(default)]
    restore_status: Option<RestoreStatus>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct RestoreStatus {
    #[serde(default)]
    is_restore_in_progress: bool,
    #[serde(default)]
    restore_expiry_date: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct CommonPrefix {
    prefix: String,
}

impl Listing {
    /// Reads a page.
    ///
    /// # Errors
    /// It is none, as a page for people to log in is none.
    pub(super) fn parse(text: &[u8]) -> Result<Self, String> {
        if text.find(b"<ListBucketResult").is_none() {
            return Err("it is no ListBucketResult".to_owned());
        }
        quick_xml::de::from_reader(text).map_err(|error| error.to_string())
    }

    /// What asks for the page after this one.
    ///
    /// # Errors
    /// There is one, and the server does not say how to ask for it.
    pub(super) fn next(&self) -> Result<Option<&str>, &'static str> {
        if !self.is_truncated {
            return Ok(None);
        }
        let token = self.next_continuation_token.as_deref().filter(|token| !token.is_empty());
        token.map(Some).ok_or(
            "the listing is not whole, and its server does not say how to ask for the rest: it may not know ListObjectsV2",
        )
    }

    /// The prefixes that stand for what is below them.
    pub(super) fn folders(&self) -> impl Iterator<Item = String> {
        self.common_prefixes.iter().map(|folder| self.plain(&folder.prefix).into_owned())
    }

    /// The objects, named by their keys.
    pub(super) fn entries(&self, name: impl Fn(&str) -> Name) -> impl Iterator<Item = Entry> {
        self.contents.iter().map(move |object| Entry {
            size: object.size,
            version: object.etag.as_deref().filter(|tag| !tag.is_empty()).map(Version::of_tag),
            modified: object.last_modified.as_deref().and_then(iso_time),
            tier: object.tier(),
            ..Entry::named(name(&self.plain(&object.key)))
        })
    }

    /// Keys are percent-encoded, if the server does that, since XML cannot hold all of them.
    fn plain<'text>(&self, text: &'text str) -> Cow<'text, str> {
        if self.encoding_type != "url" {
            return Cow::Borrowed(text);
        }
        let text = text.replace('+', " ");
        Cow::Owned(percent_decode_str(&text).decode_utf8_lossy().into_owned())
    }
}

impl Content {
    fn tier(&self) -> Tier {
        let Some(class) = self.storage_class.as_deref().filter(|class| is_cold(class)) else {
            return Tier::Online;
        };
        let class = class.into();
        match &self.restore_status {
            Some(status) if status.is_restore_in_progress => Tier::Recalling { class },
            Some(RestoreStatus { restore_expiry_date: Some(date), .. }) => {
                Tier::Recalled { class, until: iso_time(date) }
            }
            _ => Tier::Cold { class },
        }
    }
}

/// The object that the head of an answer describes.
pub(super) fn entry(name: Name, headers: &HeaderMap) -> Entry {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let whole = match text(CONTENT_RANGE.as_str()) {
        Some(range) => range.rsplit('/').next(),
        None => text(CONTENT_LENGTH.as_str()),
    };
    Entry {
        size: whole.and_then(|bytes| bytes.parse().ok()),
        version: text(ETAG.as_str()).map(Version::new),
        modified: text(LAST_MODIFIED.as_str()).and_then(http_time),
        tier: tier(headers),
        ..Entry::named(name)
    }
}

/// From `x-amz-storage-class`, `x-amz-archive-status` and `x-amz-restore`.
fn tier(headers: &HeaderMap) -> Tier {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let class = text("x-amz-archive-status")
        .or_else(|| text("x-amz-storage-class").filter(|class| is_cold(class)));
    let Some(class) = class.map(Into::into) else { return Tier::Online };
    match text("x-amz-restore") {
        None => Tier::Cold { class },
        Some(restore) if restore.contains("ongoing-request=\"true\"") => Tier::Recalling { class },
        Some(restore) => {
            let until =
                restore.split("expiry-date=\"").nth(1).and_then(|rest| rest.split('"').next());
            Tier::Recalled { class, until: until.and_then(http_time) }
        }
    }
}

/// The classes whose objects cannot be read. `GLACIER_IR` can; archived objects
/// of `INTELLIGENT_TIERING` are only told by `x-amz-archive-status`.
fn is_cold(class: &str) -> bool {
    matches!(class, "GLACIER" | "DEEP_ARCHIVE")
}

fn iso_time(text: &str) -> Option<SystemTime> {
    system_time(text.parse().ok()?)
}

fn http_time(text: &str) -> Option<SystemTime> {
    system_time(jiff::fmt::rfc2822::parse(text).ok()?.timestamp())
}

fn system_time(time: jiff::Timestamp) -> Option<SystemTime> {
    UNIX_EPOCH.checked_add(Duration::try_from(time.as_duration()).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>b</Name><Prefix></Prefix>
<KeyCount>4</KeyCount><MaxKeys>1000</MaxKeys><EncodingType>url</EncodingType><IsTruncated>true</IsTruncated>
<NextContinuationToken>1+/=</NextContinuationToken>
<Contents><Key>a+b%2Bc%23%25/%C3%BC</Key><LastModified>2026-01-02T03:04:05.678Z</LastModified><ETag>&quot;e1&quot;</ETag><Size>7</Size><StorageClass>STANDARD</StorageClass></Contents>
<CommonPrefixes><Prefix>x%20y/</Prefix></CommonPrefixes>
<Contents><Key>g</Key><Size>1</Size><StorageClass>GLACIER</StorageClass></Contents>
<Contents><Key>h</Key><Size>1</Size><StorageClass>DEEP_ARCHIVE</StorageClass><RestoreStatus><IsRestoreInProgress>true</IsRestoreInProgress></RestoreStatus></Contents>
<Contents><Key>i</Key><Size>1</Size><StorageClass>GLACIER</StorageClass><RestoreStatus><IsRestoreInProgress>false</IsRestoreInProgress><RestoreExpiryDate>2026-12-21T00:00:00Z</RestoreExpiryDate></RestoreStatus></Contents>
</ListBucketResult>"#;

    #[test]
    fn a_page_tells_names_versions_and_tiers() {
        let page = Listing::parse(PAGE.as_bytes()).unwrap();
        let entries: Vec<_> = page.entries(|key| Name::from(key)).collect();
        assert_eq!(page.next(), Ok(Some("1+/=")));
        assert_eq!(page.folders().collect::<Vec<_>>(), ["x y/"]);
        assert_eq!(entries[0].name, Name::from("a b+c#%/ü"));
        assert_eq!(entries[0].version, Some(Version::new("\"e1\"")));
        assert_eq!((entries[0].size, &entries[0].tier), (Some(7), &Tier::Online));
        let time = UNIX_EPOCH + Duration::from_millis(1_767_323_045_678);
        assert_eq!(entries[0].modified, Some(time));
        assert_eq!(entries[1].tier, Tier::Cold { class: "GLACIER".into() });
        assert_eq!(entries[2].tier, Tier::Recalling { class: "DEEP_ARCHIVE".into() });
        assert!(matches!(&entries[3].tier, Tier::Recalled { until: Some(_), .. }));
    }

    #[test]
    fn an_empty_page_is_the_last() {
        let page = Listing::parse(
            b"<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>",
        )
        .unwrap();
        assert_eq!(page.next(), Ok(None));
        assert!(page.entries(|key| Name::from(key)).next().is_none());
        for none in ["<html><body/></html>", "nonsense", "", "<Error><Code>x</Code></Error>"] {
            assert!(Listing::parse(none.as_bytes()).is_err(), "{none}");
        }
    }

    #[test]
    fn a_page_that_is_not_the_last_says_what_asks_for_the_next() {
        // As a server answers that knows the first version of listing only.
        let text = "<ListBucketResult><IsTruncated>true</IsTruncated><NextMarker>b</NextMarker></ListBucketResult>";
        assert!(Listing::parse(text.as_bytes()).unwrap().next().is_err());
    }

    #[test]
    fn a_head_tells_the_whole_size_and_the_tier() {
        let head = |fields: &[(&'static str, &str)]| {
            let mut headers = HeaderMap::new();
            for &(name, value) in fields {
                headers.insert(name, value.parse().unwrap());
            }
            entry(Name::from("x"), &headers)
        };
        let part = head(&[("content-length", "10"), ("content-range", "bytes 5-14/99")]);
        assert_eq!(part.size, Some(99));
        let frozen = [("x-amz-storage-class", "GLACIER")];
        assert_eq!(head(&frozen).tier, Tier::Cold { class: "GLACIER".into() });
        let thawed = r#"ongoing-request="false", expiry-date="Fri, 21 Dec 2012 00:00:00 GMT""#;
        let thawed = head(&[frozen[0], ("x-amz-restore", thawed)]);
        let until = Some(UNIX_EPOCH + Duration::from_hours(376_680));
        assert_eq!(thawed.tier, Tier::Recalled { class: "GLACIER".into(), until });
        let thawing = head(&[frozen[0], ("x-amz-restore", r#"ongoing-request="true""#)]);
        assert_eq!(thawing.tier, Tier::Recalling { class: "GLACIER".into() });
        assert_eq!(head(&[("x-amz-storage-class", "GLACIER_IR")]).tier, Tier::Online);
    }
}
