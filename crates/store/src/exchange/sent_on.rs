//! Where a request was sent on to, so that an error names the host that failed and not the first.

use std::cell::RefCell;

use reqwest::Url;

use crate::silence::heard;

tokio::task_local! {
    /// The client tells nobody but its policy of redirects.
    static LAST: RefCell<Option<Url>>;
}

/// Notes that the request under way is sent on; for the policies of clients.
pub(super) fn sent_on(to: &Url) {
    heard();
    // Of other requests nobody asks.
    let _outside = LAST.try_with(|last| last.replace(Some(to.clone())));
}

/// What a request gives; an error is about the URL that it was sent on to last.
pub(super) async fn naming_the_last<T>(
    request: impl Future<Output = reqwest::Result<T>>,
) -> reqwest::Result<T> {
    let named = async {
        let answer = request.await;
        let last = LAST.with(RefCell::take);
        answer.map_err(|error| match last {
            Some(url) => error.with_url(url),
            None => error,
        })
    };
    LAST.scope(RefCell::default(), named).await
}
