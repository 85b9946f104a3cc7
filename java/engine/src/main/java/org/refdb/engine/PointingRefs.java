package org.refdb.engine;

import java.util.ArrayList;
import java.util.List;

/**
 * The refs that hold each of some objects or a tag that leads to it.
 *
 * @param version the view's, see {@link EngineView#version}
 * @param names of each object's refs, in order of their bytes; the objects are in the order of the question
 */
public record PointingRefs(long version, List<List<String>> names) {
  static PointingRefs unpack(Unpacker answer) {
    long version = answer.i64();
    List<List<String>> names = new ArrayList<>();
    while (answer.hasMore()) {
      names.add(answer.countedTexts());
    }
    return new PointingRefs(version, names);
  }
}
