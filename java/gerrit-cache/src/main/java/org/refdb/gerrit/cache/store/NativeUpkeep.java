package org.refdb.gerrit.cache.store;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.util.Map;
import org.refdb.engine.Cache;

/** Operations of administrators on a cache of the engine. */
final class NativeUpkeep implements Store.Upkeep {
  private final Cache cache;

  NativeUpkeep(Cache cache) {
    this.cache = cache;
  }

  private interface Question<T> {
    T ask() throws IOException;
  }

  private static <T> T answer(Question<T> question) {
    try {
      return question.ask();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  @Override
  public Map<String, Long> figures() {
    return answer(cache::stats);
  }

  @Override
  public Cache.Verified verify() {
    return answer(cache::verify);
  }

  @Override
  public long compact() {
    return answer(cache::compact);
  }

  @Override
  public void forEach(Cache.Visitor visitor) {
    answer(() -> cache.forEach(false, visitor));
  }

  @Override
  public void forEachWithValue(Cache.Visitor visitor) {
    answer(() -> cache.forEach(true, visitor));
  }

  @Override
  public long exportTo(OutputStream to) {
    return answer(() -> cache.exportTo(to));
  }

  @Override
  public Cache.Imported importFrom(InputStream from) {
    return answer(() -> cache.importFrom(from));
  }
}
