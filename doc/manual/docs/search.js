/* An option is found by its name, --weights: a "-" in front would mean "pages without it" to the search. */
(() => {
    const QUERY = 2, post = Worker.prototype.postMessage;
    Worker.prototype.postMessage = function (message, ...rest) {
        if (message?.type === QUERY) message = { ...message, data: message.data.replace(/(^|\s)-+(?=\w)/g, "$1") };
        return post.call(this, message, ...rest);
    };
})();
