package org.refdb.engine;

import java.util.ArrayList;
import java.util.List;

/**
 * What a batch wrote down before the global ref database was asked. It is there while that is under way, and where it
 * is not known how it ended.
 *
 * @param id its name
 * @param mark as {@link Arbiter.Verdict.Ask} gave it
 * @param refs in order of name
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
