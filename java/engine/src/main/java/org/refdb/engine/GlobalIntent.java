package org.refdb.engine;

import java.util.ArrayList;
import java.util.List;

/**
 * What a batch recorded before the global ref database was asked. An intent exists while the batch is in progress, and
 * afterwards until it is settled, if the outcome is unknown or the refs could not be committed.
 *
 * @param id the name of the intent
 * @param mark the mark of {@link Arbiter.Verdict.Ask}
 * @param refs the changes, in order of name
 */
public record GlobalIntent(String id, String mark, List<GlobalRef> refs) {
  static List<GlobalIntent> unpack(byte[] answer) {
    Unpacker in = new Unpacker(answer);
    in.u8();
    List<GlobalIntent> intents = new ArrayList<>();
    while (in.hasMore()) {
      intents.add(new GlobalIntent(in.text(), in.text(), GlobalRef.unpack(in)));
    }
    return intents;
  }
}
