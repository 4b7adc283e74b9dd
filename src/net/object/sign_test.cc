#include "net/object/sign.h"

#include <gtest/gtest.h>

#include "net/object/client.h"

namespace weft::net::object {
namespace {

// The examples of "Signature Calculations for the Authorization Header" in Amazon S3's API reference (2006-03-01).
const Credentials kExample{"AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", ""};
constexpr const char* kEmpty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

std::string signature(const Unsigned& request) {
  const std::string text = authorization(request, kExample, "us-east-1", "s3");
  return text.substr(text.find("Signature=") + 10);
}

TEST(Signature, OfARangeIsTheOneOfAmazonsDocumentation) {
  EXPECT_EQ(signature({.method = "GET",
                       .path = "/test.txt",
                       .headers = {{"host", "examplebucket.s3.amazonaws.com"},
                                   {"range", "bytes=0-9"},
                                   {"x-amz-content-sha256", kEmpty},
                                   {"x-amz-date", "20130524T000000Z"}}}),
            "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
}

TEST(Signature, OfAListIsTheOneOfAmazonsDocumentation) {
  EXPECT_EQ(signature({.method = "GET",
                       .path = "/",
                       .query = {{"max-keys", "2"}, {"prefix", "J"}},
                       .headers = {{"host", "examplebucket.s3.amazonaws.com"},
                                   {"x-amz-content-sha256", kEmpty},
                                   {"x-amz-date", "20130524T000000Z"}}}),
            "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7");
}

TEST(Signature, OfAnObjectWithADollarInItsKeyIsTheOneOfAmazonsDocumentation) {
  EXPECT_EQ(signature({.method = "PUT",
                       .path = "/" + percent_encoded("test$file.text", true),
                       .headers = {{"date", "Fri, 24 May 2013 00:00:00 GMT"},
                                   {"host", "examplebucket.s3.amazonaws.com"},
                                   {"x-amz-content-sha256",
                                    "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072"},
                                   {"x-amz-date", "20130524T000000Z"},
                                   {"x-amz-storage-class", "REDUCED_REDUNDANCY"}}}),
            "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd");
}

TEST(Encoding, LeavesUnreservedCharactersAndSlashesOfKeys) {
  EXPECT_EQ(percent_encoded("a b/ü+~", true), "a%20b/%C3%BC%2B~");
  EXPECT_EQ(percent_encoded("a/b", false), "a%2Fb");
}

// CRC-32C of "123456789" is E3069283.
TEST(ChecksumHeader, IsBase64OfTheHighestByteFirst) { EXPECT_EQ(checksum_header(0xE3069283), "4waSgw=="); }

TEST(ElementOf, FindsTheCodeOfAnErrorAndNothingInOtherText) {
  EXPECT_EQ(element_of("<?xml version=\"1.0\"?><Error><Code>SlowDown</Code></Error>", "Code"), "SlowDown");
  EXPECT_EQ(element_of("upstream timed out", "Code"), "");
  EXPECT_EQ(element_of("<Error><Code>Slow", "Message"), "");
}

}  // namespace
}  // namespace weft::net::object
