package org.refdb.gerrit.cache;

import com.google.common.flogger.FluentLogger;
import com.google.gerrit.server.cache.PersistentCacheDef;
import com.google.gerrit.server.cache.serialize.CacheSerializer;
import com.google.gerrit.server.util.time.TimeUtil;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.refdb.gerrit.cache.shared.SharedTier;

/** The values of one cache that other servers have computed, as objects. */
final class SharedValues<K, V> {
  private static final FluentLogger logger = FluentLogger.forEnclosingClass();

  private final SharedTier tier;
  private final KeyCodec<K> keys;
  private final CacheSerializer<V> values;
  private final DiskTier.Ages ages;
  final Latency latency = new Latency();

  SharedValues(PersistentCacheDef<K, V> def, SharedTier tier, DiskTier.Ages ages) {
    this.tier = tier;
    this.keys = KeyCodec.of(def);
    this.values = def.valueSerializer();
    this.ages = ages;
  }

  SharedTier tier() {
    return tier;
  }

  /**
   * What came of a look-up.
   *
   * @param key the key
   * @param found the value; null if there is none, so that it must be loaded
   * @param keyBytes the key as bytes; null if the cache is not shared, or the look-up failed
   * @param valueBytes the bytes that the shared tier has for the key; null if none were found
   * @param place where the value is, or goes once it is loaded; null if nowhere
   */
  record Asked<K, V>(K key, Holder<V> found, byte[] keyBytes, byte[] valueBytes, SharedTier.Place place) {
    static <K, V> Asked<K, V> nothing(K key) {
      return new Asked<>(key, null, null, null, null);
    }
  }

  /**
   * Asks for several values at once. Returns one answer for each key.
   *
   * @param tick the time of the {@link ChangeClock} before this call: a change after it makes the values void
   */
  List<Asked<K, V>> ask(List<K> asked, long tick) {
    long start = System.nanoTime();
    List<Asked<K, V>> found = new ArrayList<>(asked.size());
    try {
      byte[][] encoded = asked.stream().map(keys::encode).toArray(byte[][]::new);
      SharedTier.Answer[] answers = tier.ask(encoded);
      for (int i = 0; i < answers.length; i++) {
        Holder<V> holder = answers[i].value() == null ? null : decode(answers[i], tick);
        found.add(new Asked<>(asked.get(i), holder, encoded[i], answers[i].value(), answers[i].place()));
      }
    } catch (RuntimeException e) {
      logger.atWarning().withCause(e).atMostEvery(1, TimeUnit.MINUTES).log("Cannot ask the shared cache");
      found.clear();
      asked.forEach(key -> found.add(Asked.nothing(key)));
    }
    latency.record(System.nanoTime() - start);
    return found;
  }

  /**
   * Waits while another server computes a value that was not found, as {@link SharedTier#awaitOther} does. Returns an
   * answer like that of {@link #ask}.
   *
   * @param tick as for {@link #ask}
   */
  Asked<K, V> awaitOther(Asked<K, V> asked, long tick) {
    if (asked.found() != null || asked.place() == null) {
      return asked;
    }
    SharedTier.Answer answer = tier.awaitOther(new SharedTier.Answer(asked.place(), null, 0), asked.keyBytes());
    Holder<V> found = answer.value() == null ? null : decode(answer, tick);
    return new Asked<>(asked.key(), found, asked.keyBytes(), answer.value(), answer.place());
  }

  /**
   * Reads values by the names of their entries. Returns those that Gerrit can read and that have not expired.
   *
   * @param tick as for {@link #ask}
   */
  List<Asked<K, V>> read(List<byte[]> names, long tick) throws IOException {
    List<Asked<K, V>> found = new ArrayList<>();
    for (SharedTier.Entry entry : tier.read(names)) {
      K key = key(entry.key());
      Holder<V> holder = key == null ? null : decode(entry.answer(), tick);
      if (holder != null) {
        found.add(new Asked<>(key, holder, entry.key(), entry.answer().value(), entry.answer().place()));
      }
    }
    return found;
  }

  /** Returns the key; null if these bytes are not how this server encodes one. */
  private K key(byte[] bytes) {
    try {
      K key = keys.decode(bytes);
      return Arrays.equals(keys.encode(key), bytes) ? key : null;
    } catch (RuntimeException e) {
      return null;
    }
  }

  /** Returns the value; null if it is too old, or cannot or must not be deserialised. */
  private Holder<V> decode(SharedTier.Answer answer, long tick) {
    if (ages.isExpired(answer.createdMillis(), TimeUtil.nowMs())) {
      return null;
    }
    try {
      if (tier.accepts(answer.value())) {
        return new Holder<>(values.deserialize(answer.value()), answer.createdMillis(), tick);
      }
    } catch (RuntimeException e) {
      logger.atFine().withCause(e).log("A value of the shared cache does not deserialise");
    }
    tier.refuse(answer);
    return null;
  }
}
